// SPDX-License-Identifier: MIT OR Apache-2.0

package stacks

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// feeder gives tables to the core's reader.
type feeder struct {
	t       *testing.T
	b       *builder
	program string
	table   []byte
	text    uint64 // bytes of code
}

func newFeeder(t *testing.T) *feeder {
	b := newBuilder(t)
	source := filepath.Join(b.root, "core")
	program := b.cBuild("pclntab", "pclntab.c", "-std=c11", "-D_GNU_SOURCE", "-fsanitize=address,undefined",
		"-fno-sanitize-recover=all", "-I"+source, filepath.Join(source, "sampler", "modules", "go_pclntab.c"),
		filepath.Join(source, "sampler", "unwind", "go_stack_handler.c"))
	file, err := elf.Open(plainHost(b))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	table, err := file.Section(".gopclntab").Data()
	if err != nil {
		t.Fatal(err)
	}
	return &feeder{t: t, b: b, program: program, table: table, text: file.Section(".text").Size}
}

// feed says what the reader makes of a table.
func (f *feeder) feed(table []byte) string {
	path := filepath.Join(f.t.TempDir(), "table")
	if err := os.WriteFile(path, table, 0o644); err != nil {
		f.t.Fatal(err)
	}
	out, err := f.b.command(f.program, path, fmt.Sprint(f.text)).CombinedOutput()
	if err != nil {
		f.t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestTableIsRead(t *testing.T) {
	f := newFeeder(t)
	var functions, frames int
	if _, err := fmt.Sscanf(f.feed(f.table), "accepted %d %d", &functions, &frames); err != nil {
		t.Fatal(err)
	}
	if want := int(binary.LittleEndian.Uint64(f.table[8:])); functions != want {
		t.Errorf("%d functions of %d", functions, want)
	}
	// C code of the same .text has none, and some assembly too.
	if places := int(f.text / 61); frames < places/2 {
		t.Errorf("frame sizes at %d of %d places", frames, places)
	}
}

func TestUnknownTablesAreRefused(t *testing.T) {
	f := newFeeder(t)
	word := func(at int, value uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], value); return b }
	}
	half := func(value uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b, value); return b }
	}
	one := func(at int, value byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = value; return b }
	}
	for name, change := range map[string]func([]byte) []byte{
		"Go 1.2":           half(0xfffffffb),
		"Go 1.16":          half(0xfffffffa),
		"Go 1.18":          half(0xfffffff0),
		"a later one":      half(0xfffffff2),
		"other byte order": half(0xf1ffffff),
		"pad":              one(5, 1),
		"quantum":          one(6, 2),
		"32-bit":           one(7, 4),
		"no functions":     word(8, 0),
		"many functions":   word(8, 1<<31),
		"endless":          word(8, 1<<61),
		"names outside":    word(32, 1<<40),
		"values outside":   word(56, uint64(len(f.table))),
		"functions at end": word(64, uint64(len(f.table))-4),
		"cut header":       func(b []byte) []byte { return b[:71] },
		"empty":            func(b []byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			if got := f.feed(change(append([]byte(nil), f.table...))); got != "refused" {
				t.Errorf("%s", got)
			}
		})
	}
}

// TestBrokenTablesAreSurvived: whatever the result, nothing outside the table is read (the sanitizer looks).
func TestBrokenTablesAreSurvived(t *testing.T) {
	f := newFeeder(t)
	random := rand.New(rand.NewPCG(20, 26))
	functions := int(binary.LittleEndian.Uint64(f.table[64:]))
	for range 80 {
		table := append([]byte(nil), f.table...)
		for range 2000 {
			table[functions+random.IntN(len(table)-functions)] = byte(random.Uint32())
		}
		table = table[:functions+16+random.IntN(1<<(4+random.IntN(16)))]
		// Values at the very end of the table: sequences that it cuts off.
		binary.LittleEndian.PutUint64(table[56:], uint64(len(table)-1-random.IntN(min(len(table)/2, 4096))))
		count := min(uint64(random.IntN(3000)+1), uint64(len(table)-functions-4)/8)
		binary.LittleEndian.PutUint64(table[8:], count)
		f.feed(table)
	}
}

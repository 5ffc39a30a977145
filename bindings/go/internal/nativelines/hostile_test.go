// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux

package nativelines

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// abbreviations: 1 is a unit of up to 0x1000 bytes with children, 2 is a type with children and nothing else, 3 an inlined
// function of up to 255 bytes with a name.
var abbreviations = []byte{1, 0x11, 1, 0x11, 0x01, 0x12, 0x0b, 0, 0, 2, 0x13, 1, 0, 0,
	3, 0x1d, 0, 0x11, 0x01, 0x12, 0x0b, 0x03, 0x08, 0, 0, 0}

// unit is one at an address, with these bytes of entries below.
func unit(address uint64, entries []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(2+4+1+1+8+1+len(entries)))
	b = append(b, 4, 0, 0, 0, 0, 0, 8, 1)
	return append(append(binary.LittleEndian.AppendUint64(b, address), 0x40), entries...)
}

// moduleWith is a file of this debug information, as if it were mapped.
func moduleWith(t *testing.T, info []byte) *module {
	t.Helper()
	names := "\x00.debug_abbrev\x00.debug_info\x00.debug_line\x00.shstrtab\x00"
	const noHeader = "\x02\x00\x00\x00\x04\x00" // of a table of lines
	var headers []elf.Section64
	content := make([]byte, 64)
	for _, b := range [][]byte{nil, abbreviations, info, []byte(noHeader), []byte(names)} {
		name := []uint32{0, 1, 15, 27, 39}[len(headers)]
		headers = append(headers, elf.Section64{Name: name, Type: uint32(elf.SHT_PROGBITS), Off: uint64(len(content)),
			Size: uint64(len(b)), Addralign: 1})
		content = append(content, b...)
	}
	headers[0], headers[4].Type = elf.Section64{}, uint32(elf.SHT_STRTAB)
	file := bytes.NewBuffer(content)
	at := len(content)
	binary.Write(file, binary.LittleEndian, headers)
	var start bytes.Buffer
	binary.Write(&start, binary.LittleEndian, elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: 3, Machine: 62,
		Version: 1, Shoff: uint64(at), Ehsize: 64, Shentsize: 64, Shnum: 5, Shstrndx: 4})
	copy(file.Bytes(), start.Bytes())
	path := filepath.Join(t.TempDir(), "hostile.so")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	stat, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return &module{path: path, inode: inode(stat)}
}

const hostileEnv = "ONSTACK_TEST_HOSTILE"

// Kilobytes of a compressed section become millions of levels. Where they take stack the process ends, whatever recovers,
// so a child reads them.
func TestDeepEntriesTakeNoStack(t *testing.T) {
	if os.Getenv(hostileEnv) == "" {
		command := exec.Command(os.Args[0], "-test.run=^TestDeepEntriesTakeNoStack$")
		command.Env = append(os.Environ(), hostileEnv+"=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%.1000s", err, out)
		}
		return
	}
	deep := slices.Repeat([]byte{2}, 16<<20)
	for _, address := range []uint64{0x1000, 0x8000} { // in the last unit, and beside it
		moduleWith(t, unit(0x1000, deep)).read([]uint64{address})
	}
}

// Entries that nothing ends go on in the next unit, and each unit here holds the address: read to the end from each one,
// they would take an hour.
func TestUnendedUnitsAreNotReadAgainAndAgain(t *testing.T) {
	moduleWith(t, bytes.Repeat(unit(0x1000, []byte{2}), 500_000)).read([]uint64{0x1000})
}

// Each address is in all of the inlined functions: with all of them noted, a million would take 48 MB for each address.
func TestInlinedCallsAreBounded(t *testing.T) {
	const addresses, entries = 32, 50_000
	one := append(binary.LittleEndian.AppendUint64([]byte{3}, 0x1000), 0xff, 'f', 0)
	file := moduleWith(t, unit(0x1000, append(bytes.Repeat(one, entries), 0))).open()
	defer file.Close()
	var wanted []uint64
	for address := range uint64(addresses) {
		wanted = append(wanted, 0x1000+address)
	}
	r, err := describe(file, wanted, false)
	if err != nil {
		t.Fatal(err)
	}
	r.readUnits()
	for _, address := range wanted {
		if calls := r.calls[address]; len(calls) != mostCalls || calls[0].name != "f" || calls[mostCalls-1].name != moreCalls {
			t.Fatalf("%#x is in %d calls, not in %d of which the last tells of more", address, len(calls), mostCalls)
		}
	}
}

// So many addresses in each of so many functions take steps, as entries do.
func TestAddressesTakeSteps(t *testing.T) {
	one := append(binary.LittleEndian.AppendUint64([]byte{3}, 0x1000), 0xff, 'f', 0)
	file := moduleWith(t, unit(0x1000, append(bytes.Repeat(one, 100_000), 0))).open()
	defer file.Close()
	r, err := describe(file, []uint64{0x1000, 0x1001, 0x1002, 0x1003, 0x1004, 0x1005, 0x1006, 0x1007, 0x1008, 0x1009, 0x100a,
		0x100b}, false)
	if err != nil {
		t.Fatal(err)
	}
	if r.readUnits(); r.left >= 0 {
		t.Errorf("%d steps are left", r.left)
	}
}

// Of a function that is as deep the outermost calls are told, each at its line.
func TestDeepInliningSaysThatThereIsMore(t *testing.T) {
	text := "static inline __attribute__((always_inline)) int f0(volatile int *x) { return *x += 1; }\n"
	for i := 1; i < mostCalls+50; i++ {
		text += fmt.Sprintf("static inline __attribute__((always_inline)) int f%d(volatile int *x) {\nreturn f%d(x); }\n", i, i-1)
	}
	m, wanted := moduleOf(t, buildSource(t, fmt.Sprintf("%sint outer(volatile int *x) { return f%d(x); }\n", text, mostCalls+49), "-g"))
	deepest := 0
	for _, frames := range m.read(wanted) {
		if deepest = max(deepest, len(frames)); len(frames) < mostCalls {
			continue
		}
		if frames[0].Name != moreCalls || frames[1].Name != "f52" || frames[1].Line != 105 || frames[mostCalls-1].Name != "outer" {
			t.Errorf("%v %v ... %v", frames[0], frames[1], frames[len(frames)-1])
		}
	}
	if deepest != mostCalls {
		t.Errorf("%d calls at the deepest address, not %d", deepest, mostCalls)
	}
}

// The cache counts frames: addresses with many are no more than others.
func TestCacheIsBounded(t *testing.T) {
	cache.Lock()
	defer cache.Unlock()
	for i := range uint64(2 * maxCached / mostCalls) {
		keep(place{"hostile", i}, make([]Frame, mostCalls))
		kept := 0
		for _, frames := range cache.frames {
			kept += 1 + len(frames)
		}
		if kept > maxCached || cache.size < kept {
			t.Fatalf("%d frames and addresses are kept, %d of them known, of at most %d", kept, cache.size, maxCached)
		}
	}
}

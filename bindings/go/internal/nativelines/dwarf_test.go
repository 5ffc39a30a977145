// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux

package nativelines

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const source = `
#include <string.h>
static inline __attribute__((always_inline)) int innermost(int x) {
  for (int i = 0; i < 9; i++) x = x * 31 + (x >> 3);
  return x;
}
static inline __attribute__((always_inline)) int middle(int x) {
  return innermost(x + 1) ^
         innermost(x * 7);
}
int outer(int x) {
  int y = middle(x);
  if (y & 4)
    y += innermost(y);
  return y + (int)strlen("x" + (y & 1));
}
int plain(int x) { return x * 3 + 1; }
`

// build compiles the source and returns the library, and the file that has its debug information.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	return buildSource(t, source, flags...)
}

func buildSource(t *testing.T, source string, flags ...string) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	file, library := filepath.Join(dir, "lines.c"), filepath.Join(dir, "liblines.so")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(compiler, append(flags, "-O2", "-fPIC", "-shared", "-o", library, file)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return library
}

// Assemblers write a subprogram for each name of a function, side by side: glibc's clone3 has three.
const aliases = `
.text
.globl one, outer, three
.type one,@function
.type outer,@function
.type three,@function
one:
outer:
three:
  nop
  ret
.size one,.-one
.size outer,.-outer
.size three,.-three
.section .note.GNU-stack,"",@progbits
`

func TestAliasesAreOneFrame(t *testing.T) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	file, library := filepath.Join(dir, "aliases.S"), filepath.Join(dir, "libaliases.so")
	if err := os.WriteFile(file, []byte(aliases), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-g", "-shared", "-Wl,--build-id", "-o", library, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m, wanted := moduleOf(t, library)
	found := m.read(wanted)
	if len(found) == 0 {
		t.Skip("this assembler describes no functions")
	}
	for address, frames := range found {
		if len(frames) != 1 {
			t.Errorf("%#x has %d frames: %v", address, len(frames), frames)
		}
	}
}

// moduleOf is the library as if it were mapped.
func moduleOf(t *testing.T, library string) (m *module, wanted []uint64) {
	t.Helper()
	file, err := elf.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var notes []byte
	if section := file.Section(".note.gnu.build-id"); section != nil {
		if notes, err = section.Data(); err != nil {
			t.Fatal(err)
		}
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, symbol := range symbols {
		for offset := uint64(0); symbol.Name == "outer" && offset < symbol.Size; offset++ {
			wanted = append(wanted, symbol.Value+offset)
		}
	}
	slices.Sort(wanted)
	return &module{path: library, buildID: buildID(notes)}, wanted
}

// addr2line is what binutils say.
func addr2line(t *testing.T, library string, address uint64) (text string) {
	t.Helper()
	out, err := exec.Command("addr2line", "-i", "-f", "-e", library, fmt.Sprintf("%#x", address)).Output()
	if err != nil {
		t.Skip("addr2line: ", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		place, _, _ := strings.Cut(lines[i+1], " (discriminator")
		text += lines[i] + " " + filepath.Base(place) + "\n"
	}
	return text
}

func TestFramesAreThoseOfAddr2line(t *testing.T) {
	for _, flags := range [][]string{{"-g"}, {"-gdwarf-4"}, {"-g", "-gz"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			library := build(t, flags...)
			m, wanted := moduleOf(t, library)
			got := m.read(wanted)
			inlined := 0
			for _, address := range wanted {
				var text string
				for _, frame := range got[address] {
					text += fmt.Sprintf("%s %s:%d\n", frame.Name, filepath.Base(frame.File), frame.Line)
				}
				if len(got[address]) > 2 {
					inlined++
				}
				if want := addr2line(t, library, address); text != want {
					t.Errorf("%#x: %q, addr2line %q", address, text, want)
				}
			}
			if inlined == 0 || len(wanted) < 40 {
				t.Errorf("%d addresses, %d in inlined functions", len(wanted), inlined)
			}
		})
	}
}

func TestSeparateDebugFileMustFit(t *testing.T) {
	library := build(t, "-g")
	m, wanted := moduleOf(t, library)
	whole := m.read(wanted)
	for _, arguments := range [][]string{{"--only-keep-debug", library, library + ".debug"}, {"--strip-debug", library}} {
		if out, err := exec.Command("objcopy", arguments...).CombinedOutput(); err != nil {
			t.Skipf("objcopy: %v %s", err, out)
		}
	}
	if separate := m.read(wanted); len(separate) != len(wanted) || len(whole) != len(wanted) {
		t.Errorf("%d results of %d by the separate file, %d before", len(separate), len(wanted), len(whole))
	}
	m.buildID[0] ^= 1
	if other := m.read(wanted); other != nil {
		t.Errorf("%d results by the file of another build", len(other))
	}
}

// Without a build id the file must be the one that was first seen mapped; the inode alone does not tell.
func TestFileIsNotReadOnceItIsWrittenOver(t *testing.T) {
	library := build(t, "-g", "-Wl,--build-id=none")
	m, wanted := moduleOf(t, library)
	info, err := os.Stat(library)
	if err != nil {
		t.Fatal(err)
	}
	m.inode = inode(info)
	noteMaps(strings.NewReader(fmt.Sprintf("1000-2000 r-xp 00000000 08:01 %d   %s\n", m.inode, library)))
	if before := m.read(wanted); len(before) != len(wanted) {
		t.Fatalf("%d answers of %d", len(before), len(wanted))
	}
	content, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // files' times are as coarse as the kernel's ticks
	if err := os.WriteFile(library, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if again, err := os.Stat(library); err != nil || inode(again) != m.inode {
		t.Fatal("not the same file", err)
	}
	if after := m.read(wanted); after != nil {
		t.Errorf("%d results by a file that was written over", len(after))
	}
}

// What a profile had before costs the next one no file: unpacking the C library's takes some 20 ms.
func TestWhatWasFoundIsNotReadAgain(t *testing.T) {
	library := build(t, "-g")
	m, wanted := moduleOf(t, library)
	m.addresses = wanted // as if the file were mapped whole, at 0
	m.segments = []elf.ProgHeader{{Type: elf.PT_LOAD, Flags: elf.PF_X, Filesz: 1 << 40}}
	first := m.find()
	if len(first) != len(wanted) || len(first[wanted[0]]) == 0 {
		t.Fatalf("%d results of %d", len(first), len(wanted))
	}
	if err := os.Remove(library); err != nil {
		t.Fatal(err)
	}
	if again := m.find(); !reflect.DeepEqual(again, first) {
		t.Errorf("%d results before, others now that the file cannot be read", len(first))
	}
}

func TestBrokenFileGivesNothing(t *testing.T) {
	library := build(t, "-g")
	m, wanted := moduleOf(t, library)
	whole, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	file, _ := elf.Open(library)
	info := file.Section(".debug_info")
	file.Close()
	for step := uint64(0); step < info.Size; step += 7 {
		broken := slices.Clone(whole)
		broken[info.Offset+step] ^= 0x5a
		if err := os.WriteFile(library, broken, 0o644); err != nil {
			t.Fatal(err)
		}
		m.read(wanted) // may say anything, but must return
	}
}

// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux

package nativelines

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// buildUnits links a library of several units, each with functions of its own, and returns the addresses in the middle one.
func buildUnits(t *testing.T, flags ...string) (m *module, wanted []uint64) {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	library := filepath.Join(dir, "libunits.so")
	arguments := append(slices.Clone(flags), "-O2", "-fPIC", "-shared", "-Wl,--build-id", "-o", library)
	for unit := range 9 {
		name, middle := filepath.Join(dir, fmt.Sprintf("unit%d.c", unit)), "int before(int x) { return x + 3; }\n"
		if unit != 4 {
			middle = fmt.Sprintf("static inline __attribute__((always_inline)) int in%d(int x) { return x * 7 + (x >> 2); }\n"+
				"int unit%d(int x) { return in%d(x) ^ 5; }\n", unit, unit, unit)
		} else {
			middle = source
		}
		if err := os.WriteFile(name, []byte(middle), 0o644); err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments, name)
	}
	if out, err := exec.Command(compiler, arguments...).CombinedOutput(); err != nil {
		t.Skipf("%v\n%s", err, out)
	}
	return moduleOf(t, library)
}

// What the index leads to is what reading all units finds; by optimization of the whole program, functions have their names in
// other units than their code.
func TestIndexLeadsToWhatIsThere(t *testing.T) {
	for _, flags := range [][]string{{"-g"}, {"-g", "-gz"}, {"-gdwarf-4", "-gz"}, {"-g", "-flto", "-flto-partition=max"}} {
		m, wanted := buildUnits(t, flags...)
		file := m.open()
		if file == nil || len(wanted) < 40 {
			t.Fatalf("%v: %d addresses", flags, len(wanted))
		}
		defer file.Close()
		found := map[bool]map[uint64][]Frame{}
		for _, all := range []bool{false, true} {
			r, err := describe(file, wanted, all)
			if err != nil {
				t.Fatal(flags, err)
			}
			if !all && len(r.roots) != 1 && !slices.Contains(flags, "-flto") {
				t.Errorf("%v: %d units for addresses in one", flags, len(r.roots))
			}
			r.readUnits()
			if r.beyond && all {
				t.Errorf("%v: all is there, and something was not", flags)
			}
			found[all] = r.frames()
		}
		if got := m.read(wanted); !reflect.DeepEqual(got, found[true]) || len(got) != len(wanted) {
			t.Errorf("%v: %d of %d addresses, %d by all units", flags, len(got), len(wanted), len(found[true]))
		}
		// One that no unit has, as of a stub, makes those be read that the index does not tell of, and changes nothing else.
		if got := m.read(append([]uint64{1}, wanted...)); !reflect.DeepEqual(got, found[true]) {
			t.Errorf("%v: %d of %d addresses beside an unknown one", flags, len(got), len(wanted))
		}
	}
}

// Of an index that leads nowhere nothing is believed.
func TestIndexOfAnotherFile(t *testing.T) {
	for _, step := range []byte{1, 4, 200} {
		m, wanted := buildUnits(t, "-g")
		file := m.open()
		content, err := os.ReadFile(m.path)
		if err != nil {
			t.Fatal(err)
		}
		want := m.read(wanted)
		section := file.Section(".debug_aranges")
		file.Close()
		if section == nil {
			t.Skip("this compiler writes no index")
		}
		for at := section.Offset; at < section.Offset+section.FileSize; {
			length := file.ByteOrder.Uint32(content[at:])
			content[at+6] += step // where its unit begins
			at += 4 + uint64(length)
		}
		if err := os.WriteFile(m.path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		for address, frames := range m.read(wanted) {
			if len(frames) > 0 && !reflect.DeepEqual(frames, want[address]) {
				t.Errorf("%d: %#x is %v, not %v", step, address, frames, want[address])
			}
		}
	}
}

// A part that was left out is there when it is asked for later, and each byte is read twice at most.
func TestSectionsAreFilledInAnyOrder(t *testing.T) {
	m, _ := buildUnits(t, "-g", "-gz")
	plain, _ := buildUnits(t, "-g")
	for _, path := range []string{m.path, plain.path} {
		file, err := openDebugFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		from := file.Section(".debug_info")
		want, err := from.Data()
		if err != nil {
			t.Fatal(err)
		}
		s, err := file.section(from)
		if err != nil {
			t.Fatal(err)
		}
		read, n := 0, uint64(len(want))
		for _, part := range [][2]uint64{{n / 4, n / 3}, {n / 2, n}, {n / 4, n / 2}, {0, 9}, {n - 1, n + 7}, {n + 1, n + 2}} {
			fresh, err := s.fill(part[0], part[1])
			read += fresh
			if err != nil || !slices.Equal(s.data[min(part[0], n):min(part[1], n)], want[min(part[0], n):min(part[1], n)]) {
				t.Errorf("%s: %v of %d bytes are not there: %v", path, part, n, err)
			}
		}
		if uint64(read) > 2*n {
			t.Errorf("%s: %d bytes read of %d", path, read, n)
		}
	}
}

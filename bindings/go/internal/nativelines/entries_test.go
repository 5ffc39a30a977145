// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux

package nativelines

import (
	"debug/dwarf"
	"slices"
	"testing"
)

// Units of each kind: of 32 bits after an empty one, of 64 bits, of types, and with a type that says code.
var kindsOfUnits = slices.Concat([]byte{0, 0, 0, 0}, unit(0x1000, []byte{2, 0, 0}),
	[]byte{255, 255, 255, 255, 22, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 1, 0, 32, 0, 0, 0, 0, 0, 0, 64, 0},
	[]byte{23, 0, 0, 0, 5, 0, 2, 8, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 24, 0, 0, 0, 2, 0, 0},
	[]byte{19, 0, 0, 0, 5, 0, 1, 8, 0, 0, 0, 0, 1, 0, 48, 0, 0, 0, 0, 0, 0, 64, 0})

func TestRootsAreThoseOfDebugDwarf(t *testing.T) {
	files := []string{moduleWith(t, kindsOfUnits).path, build(t, "-g"), build(t, "-gdwarf-4"), "testdata/debug/dwarf4.so"}
	for i, path := range files {
		file, err := openDebugFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		r, err := describe(file, nil, true)
		if err != nil {
			t.Fatal(path, err)
		}
		got, want := r.roots, unitsOfCode(r.data)
		if !slices.Equal(got, want) || len(want) == 0 || i == 0 && len(want) != 3 {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

func unitsOfCode(data *dwarf.Data) (offsets []dwarf.Offset) {
	entries := data.Reader()
	for entry, err := entries.Next(); err == nil && entry != nil; entry, err = entries.Next() {
		if entry.Tag == dwarf.TagCompileUnit {
			offsets = append(offsets, entry.Offset)
		}
		entries.SkipChildren()
	}
	return offsets
}

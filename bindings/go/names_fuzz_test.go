// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// exploding is a C++ name each of whose parts stands for two of the one before: 30 bytes more are a thousand times the
// text.
func exploding(parts int) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	name := "_Z1f1aIiiES_IS0_S0_E"
	for i := range parts {
		name += "S_IS" + string(digits[i+1]) + "_S" + string(digits[i+1]) + "_E"
	}
	return name
}

// Names come out of symbol tables of files that anybody made: what they stand for has an end, and a frame stays one.
func FuzzDemangle(f *testing.F) {
	for name := range systemNames {
		f.Add(name)
	}
	f.Add(exploding(3))
	f.Add(exploding(30))
	f.Add("__ZN3foo3barE")
	f.Fuzz(func(t *testing.T, name string) {
		people := demangled(name)
		if len(people) > max(len(name), longestName)+len("...") {
			t.Fatalf("%q became %d bytes", name, len(people))
		}
		if utf8.ValidString(name) && !utf8.ValidString(people) {
			t.Fatalf("%q became %q, which is no text", name, people)
		}
		if (people == "") != (name == "") {
			t.Fatalf("%q became %q", name, people)
		}
	})
}

// Comments stand in the profile one behind the other: a path must not make two of one.
func FuzzComments(f *testing.F) {
	f.Add("/lib/a.so", uint64(3), uint64(2))
	f.Add("a\nonstack.stats ticks=9", uint64(1), uint64(0))
	f.Fuzz(func(t *testing.T, path string, lost, reason uint64) {
		m := ModuleStats{Path: path, Lost: lost}
		m.LostBy[reason%uint64(truncationCount)] = lost
		lines := comments(Stats{}, []ModuleStats{m})
		if want := 1 + int(min(lost, 1)); len(lines) != want {
			t.Fatalf("%d comments, not %d", len(lines), want)
		}
		for _, line := range lines {
			if strings.ContainsAny(line, "\n\r") || !strings.HasPrefix(line, "onstack.") {
				t.Fatalf("comment %q", line)
			}
		}
		if m.String() == "" || (m.Advice() != "" && lost == 0) {
			t.Fatalf("%q, %q", m.String(), m.Advice())
		}
	})
}

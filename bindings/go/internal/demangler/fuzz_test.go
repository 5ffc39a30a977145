// SPDX-License-Identifier: MIT OR Apache-2.0

package demangler

import (
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
		people := Name(name)
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

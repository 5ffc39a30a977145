// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"bytes"
	"strconv"
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
		people := demangler{}.name(name)
		if !isMangled(name) && people != name {
			t.Fatalf("%q became %q", name, people)
		}
		if len(people) > max(len(name), longestName)+len("...") {
			t.Fatalf("%q became %d bytes", name, len(people))
		}
		if utf8.ValidString(name) && !utf8.ValidString(people) {
			t.Fatalf("%q became %q, which is no text", name, people)
		}
		if (people == "") != (name == "") {
			t.Fatalf("%q became %q", name, people)
		}
		if folded := (demangler{}).stack(name + ";x"); strings.Count(folded, ";") != strings.Count(name, ";")+1 {
			t.Fatalf("%q became the frames %q", name, folded)
		}
	})
}

func foldedTicks(t *testing.T, text []byte) (ticks uint64) {
	previous := ""
	for line := range strings.Lines(string(text)) {
		stack, number, found := cutLast(strings.TrimSuffix(line, "\n"))
		count, err := strconv.ParseUint(number, 10, 64)
		if !found || err != nil {
			t.Fatalf("line %q", line)
		}
		if previous != "" && stack <= previous {
			t.Fatalf("%q behind %q", stack, previous)
		}
		previous = stack
		ticks += count
	}
	return ticks
}

func cutLast(line string) (stack, number string, found bool) {
	space := strings.LastIndexByte(line, ' ')
	if space < 0 {
		return "", "", false
	}
	return line[:space], line[space+1:], true
}

// Folded stacks of any content are refused, or come back sorted, each stack once, with the same sum.
func FuzzDemangleFolded(f *testing.F) {
	f.Add([]byte("worker;main;_ZN1a1bE 3\nworker;main 2\n"))
	f.Add([]byte("a 1\na 18446744073709551615"))
	f.Add([]byte("a b c 1\n\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var out bytes.Buffer
		if err := demangleFolded(raw, &out); err != nil {
			if out.Len() != 0 {
				t.Fatalf("%v, and %d bytes", err, out.Len())
			}
			return
		}
		var want uint64
		for line := range strings.Lines(string(raw)) {
			_, number, _ := cutLast(strings.TrimSuffix(line, "\n"))
			count, _ := strconv.ParseUint(number, 10, 64)
			want += count
		}
		if got := foldedTicks(t, out.Bytes()); got != want {
			t.Fatalf("%d ticks of %d", got, want)
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

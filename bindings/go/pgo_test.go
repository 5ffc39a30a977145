// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// What the compiler does with a profile of testdata/pgo, and does not do without one.
var pgoDecisions = map[string]*regexp.Regexp{
	"an interface call becomes a direct one": regexp.MustCompile(`PGO devirtualizing interface call s\.area to \(\*square\)\.area`),
	"which is inlined":                       regexp.MustCompile(`inlining call to \(\*square\)\.area`),
	"and so is a costly function":            regexp.MustCompile(`inlining call to mix\b`),
}

// A profile by onstack is to the compiler what Go's own of the same run is: the same calls are hot, at the same lines.
func TestCompilerTakesProfile(t *testing.T) {
	place := t.TempDir()
	program, theirs, ours := filepath.Join(place, "pgo"), filepath.Join(place, "go.pprof"), filepath.Join(place, "onstack.pprof")
	run := func(name string, arguments ...string) string {
		t.Helper()
		out, err := exec.Command(name, arguments...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, arguments, err, out)
		}
		return string(out)
	}
	// Only the program's own package gets the profile: `go build -pgo` compiles the standard library anew.
	build := func(flags string) string {
		t.Helper()
		return run("go", "build", "-pgo=off", "-gcflags=-m"+flags, "-o", program, "./testdata/pgo")
	}
	without := build("")
	run(program, theirs, ours)
	for _, profile := range []string{theirs, ours} {
		prepared := profile + ".pgo"
		run("go", "tool", "preprofile", "-i", profile, "-o", prepared) // as `go build -pgo` does
		with := build(" -pgoprofile=" + prepared)
		for what, decision := range pgoDecisions {
			if !decision.MatchString(with) || decision.MatchString(without) {
				t.Errorf("%s, by %s: it is so %v; without a profile %v", what, filepath.Base(profile),
					decision.MatchString(with), decision.MatchString(without))
			}
		}
	}
}

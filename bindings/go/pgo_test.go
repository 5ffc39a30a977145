// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What the compiler does with a profile of testdata/pgo, and does not do without one.
var pgoDecisions = map[string]*regexp.Regexp{
	"an interface call becomes a direct one": regexp.MustCompile(`PGO devirtualizing interface call s\.area to \(\*square\)\.area`),
	"which is inlined":                       regexp.MustCompile(`inlining call to \(\*square\)\.area`),
	"and so is a costly function":            regexp.MustCompile(`inlining call to mix\b`),
}

const pgoProgram = "./testdata/pgo"

// onlyWork has the compiler tell what it does with package work.
const onlyWork = "-gcflags=github.com/onstack-profiler/onstack/bindings/go/testdata/pgo/work=-m"

func pgoRun(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	out, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, arguments, err, out)
	}
	return string(out)
}

func wantDecisions(t *testing.T, by, with, without string) {
	t.Helper()
	for what, decision := range pgoDecisions {
		if !decision.MatchString(with) || decision.MatchString(without) {
			t.Errorf("%s, by %s: it is so %v; without a profile %v", what, by, decision.MatchString(with), decision.MatchString(without))
		}
	}
}

// pgoProfiles are Go's and ours of one run, and what the compiler says of it without them.
func pgoProfiles(t *testing.T) (theirs, ours, said string) {
	t.Helper()
	place := t.TempDir()
	program, theirs, ours := filepath.Join(place, "pgo"), filepath.Join(place, "go.pprof"), filepath.Join(place, "onstack.pprof")
	said = pgoRun(t, "go", "build", "-pgo=off", onlyWork, "-o", program, pgoProgram)
	pgoRun(t, program, theirs, ours)
	return theirs, ours, said
}

// A profile by onstack is to the compiler what Go's own of the same run is: the same calls are hot, at the same lines.
func TestCompilerTakesProfile(t *testing.T) {
	theirs, ours, without := pgoProfiles(t)
	for _, profile := range []string{theirs, ours} {
		// Only the program's own package gets the profile: `go build -pgo` compiles the standard library anew.
		prepared := profile + ".pgo"
		pgoRun(t, "go", "tool", "preprofile", "-i", profile, "-o", prepared) // as `go build -pgo` does
		with := pgoRun(t, "go", "build", "-pgo=off", onlyWork+" -pgoprofile="+prepared, "-o", profile+".program", pgoProgram)
		wantDecisions(t, filepath.Base(profile), with, without)
	}
}

// The same by `go build -pgo`, and what it is worth: programs built by Go's profile, by ours and by none take turns. By hand,
// as all is compiled anew for each profile: ONSTACK_TEST_COST=11 go test -run TestBuildByProfile -v .
func TestBuildByProfile(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("ONSTACK_TEST_COST"))
	if err != nil || rounds < 3 {
		t.Skip("set ONSTACK_TEST_COST to a number of rounds, 3 at least")
	}
	theirs, ours, without := pgoProfiles(t)
	programs := []struct{ by, profile string }{{"none", "off"}, {"Go's profile", theirs}, {"ours", ours}}
	paths := make([]string, len(programs))
	for i, of := range programs {
		paths[i] = filepath.Join(t.TempDir(), "timed")
		said := pgoRun(t, "go", "build", "-pgo="+of.profile, onlyWork, "-o", paths[i], pgoProgram+"/timed")
		if of.profile != "off" {
			wantDecisions(t, of.by, said, without)
		}
	}
	times := make([][]float64, len(programs))
	for range rounds {
		for i := range programs {
			number, _, _ := strings.Cut(pgoRun(t, paths[i]), " ")
			nanoseconds, err := strconv.ParseFloat(number, 64)
			if err != nil {
				t.Fatal(err)
			}
			times[i] = append(times[i], nanoseconds/1e6)
		}
	}
	for i, of := range programs {
		slices.Sort(times[i])
		t.Logf("by %-12s %.0f ms of CPU time at least, %.0f in the middle of %d", of.by, times[i][0], times[i][rounds/2], rounds)
	}
	// What the machine does beside takes time and gives none.
	if none, theirs, ours := times[0][0], times[1][0], times[2][0]; ours > 1.1*theirs || ours > 1.05*none {
		t.Errorf("by our profile %.0f ms, by Go's %.0f ms, by none %.0f ms", ours, theirs, none)
	}
}

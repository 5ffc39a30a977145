// SPDX-License-Identifier: MIT OR Apache-2.0

// Package onstacktest profiles tests and benchmarks with all their native code, as -cpuprofile does for Go code. A
// package that has
//
//	func TestMain(m *testing.M) { os.Exit(onstacktest.Run(m)) }
//
// knows the flags
//
//	go test -bench . -onstack.profile cpu.pb.gz    one profile of the whole run
//	go test -bench . -onstack.dir profiles         one for each test and benchmark that calls Profile
//	-onstack.hz 250                                the rate; default 99
//
// The profile of a benchmark is that of its last round, the one that the testing package reports:
//
//	func BenchmarkParse(b *testing.B) {
//		onstacktest.Profile(b)
//		for b.Loop() {
//			parse(input)
//		}
//	}
//
// A profile is written whole or not at all, to a file that its owner alone can read, in the place of a former one. Links,
// devices and pipes are refused.
//
// Without the flags neither costs anything. `go test` links without a symbol table: keep names of native functions with
// `go test -o bench.test -bench .`, which keeps it.
package onstacktest

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	_ "github.com/onstack-profiler/onstack/bindings/go/internal/demangler"
)

var (
	profileFile = flag.String("onstack.profile", "", "write one profile of the whole run, native code included, to `file`")
	profileDir  = flag.String("onstack.dir", "", "write a profile of each test that calls onstacktest.Profile into `directory`")
	profileRate = flag.Int("onstack.hz", onstack.DefaultRate, "`samples` a second of CPU time")
)

// Run runs the tests, with a profile around them if -onstack.profile is given, and returns the code to exit with.
func Run(m *testing.M) int {
	flag.Parse()
	if *profileFile == "" {
		return m.Run()
	}
	if err := check(*profileFile); err != nil { // now, not when the benchmarks have run for an hour
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	p, err := onstack.Start(onstack.WithRate(*profileRate))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	code := m.Run()
	if err := write(p, *profileFile); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return code
}

// Profile profiles the rest of a test or benchmark if -onstack.dir is given. The file's name is the test's, with
// underscores for slashes.
func Profile(tb testing.TB, opts ...onstack.Option) {
	tb.Helper()
	if *profileDir == "" {
		return
	}
	if err := os.MkdirAll(*profileDir, 0o755); err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(*profileDir, strings.ReplaceAll(tb.Name(), "/", "_")+".pb.gz")
	if err := check(file); err != nil {
		tb.Fatal(err)
	}
	p, err := onstack.Start(append([]onstack.Option{onstack.WithRate(*profileRate)}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := write(p, file); err != nil {
			tb.Error(err)
		}
	})
}

// write stops the profile and writes it; nothing is left of it then.
func write(p *onstack.Profile, path string) error {
	defer p.Close()
	if err := p.Stop(); err != nil {
		return err
	}
	return replace(path, func(file io.Writer) error {
		_, err := p.WriteTo(file)
		return err
	})
}

// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// mostBytes is what this package may add to an unstripped program that already has cgo.
const mostBytes = 2_500_000

const bareMain = `package main

// #include <stdlib.h>
import "C"

func main() { println(C.abs(1)) }
`

const profilingMain = `package main

import onstack "github.com/onstack-profiler/onstack/bindings/go"

func main() {
	p, err := onstack.Start()
	if err != nil {
		panic(err)
	}
	p.Stop()
	p.Close()
}
`

func TestTheRootPackageAddsLittleToAProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("it links two programs")
	}
	folder, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	bare, profiling := programSize(t, folder, bareMain), programSize(t, folder, profilingMain)
	t.Logf("%d bytes without, %d with", bare, profiling)
	if added := profiling - bare; added > mostBytes {
		t.Errorf("the package adds %d bytes to a program, more than %d: go list -deps shows what it imports", added, mostBytes)
	}
}

// programSize builds a program in a module of its own, with no flag of the environment.
func programSize(t *testing.T, folder, source string) int64 {
	t.Helper()
	dir := t.TempDir()
	module := "module example.org/user\n\ngo 1.25.0\n\nrequire github.com/onstack-profiler/onstack/bindings/go v0.0.0\n\n" +
		"replace github.com/onstack-profiler/onstack/bindings/go => " + folder + "\n"
	for name, text := range map[string]string{"go.mod": module, "main.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_CFLAGS=-g -O2", "CGO_LDFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

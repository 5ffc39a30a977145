// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstacktest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
	"github.com/onstack-profiler/onstack/bindings/go/onstacktest"
)

func TestMain(m *testing.M) { os.Exit(onstacktest.Run(m)) }

func BenchmarkNative(b *testing.B) {
	onstacktest.Profile(b)
	b.Run("inner", func(b *testing.B) {
		onstacktest.Profile(b)
		for b.Loop() {
			testburn.Native(100 * time.Millisecond)
		}
	})
}

func TestFlags(t *testing.T) {
	dir := t.TempDir()
	whole, each := filepath.Join(dir, "whole.pb.gz"), filepath.Join(dir, "each")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^$", "-test.bench", "Native", "-test.benchtime", "5x",
		"-onstack.profile", whole, "-onstack.dir", each, "-onstack.hz", "200")
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, path := range []string{whole, filepath.Join(each, "BenchmarkNative_inner.pb.gz")} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p, err := pprofcheck.Parse(content)
		if err != nil {
			t.Fatal(err)
		}
		if p.Period != (5*time.Millisecond).Nanoseconds() || !strings.Contains(p.String(), "testburn_leaf") {
			t.Errorf("%s: %s", path, p)
		}
	}
}

func TestProblemsAreTold(t *testing.T) {
	dir := t.TempDir()
	link, profiles := filepath.Join(dir, "link"), filepath.Join(dir, "profiles")
	if err := errors.Join(os.Mkdir(profiles, 0o700), os.Symlink("victim", link),
		os.Symlink("../victim", filepath.Join(profiles, "BenchmarkNative.pb.gz"))); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]string{
		"-onstack.profile=" + link:              "symbolic link",
		"-onstack.dir=" + profiles:              "symbolic link",
		"-onstack.profile=x -onstack.hz=0":      "WithRate(0)",
		"-onstack.profile=/no/such/dir/p.pb.gz": "/no/such/dir",
		"-onstack.dir=/proc/no":                 "/proc/no",
	} {
		arguments := append(strings.Fields(flags), "-test.run", "^$", "-test.bench", "Native", "-test.benchtime", "1x")
		out, err := exec.CommandContext(t.Context(), os.Args[0], arguments...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v %s", flags, err, out)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "victim")); err == nil {
		t.Error("a link was followed")
	}
}

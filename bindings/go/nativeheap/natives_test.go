// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package nativeheap_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/onstack-profiler/onstack/bindings/go/nativeheap/internal/leaktest"
)

const nativeBlocks = 300

//go:noinline
func allocates(keep func()) {
	for range nativeBlocks {
		keep()
	}
}

// wantBlocks looks for the blocks of `allocates` below these native functions, leaf first.
func wantBlocks(t *testing.T, p *profile.Profile, column string, least, most int64, functions ...string) {
	t.Helper()
	functions = append(functions, "nativeheap_test.allocates", "runtime.goexit")
	if got := sum(p, column, "native", functions...); got < least || got > most {
		t.Errorf("%s: %d, not %d to %d, in\n%s", column, got, least, most, strings.Join(functions, "\n"))
	}
}

// What libc allocates for its caller, and C++'s operators, whose calls are not this executable's own.
func TestBlocksOfLibcAndCxx(t *testing.T) {
	if sanitized {
		t.Skip("a detector has functions of its own in the place of these")
	}
	text := strings.Repeat("x", 999)
	works := func(copies func(string) bool) func() {
		return func() {
			if !copies(text) {
				t.Error("libc makes no copy")
			}
		}
	}
	for name, of := range map[string]struct {
		keep      func()
		functions []string
		room      int64 // of a block of 1000 bytes at most
		least     int64 // in use: where blocks come and go meanwhile at the same addresses, some find no place among those known
	}{
		"strdup":      {works(leaktest.Strdup), []string{"malloc", "leaktest_strdup"}, 1000, nativeBlocks},
		"asprintf":    {works(leaktest.Asprintf), []string{"leaktest_asprintf"}, 1000, nativeBlocks * 3 / 4},
		"getline":     {works(leaktest.Getline), []string{"leaktest_getline"}, 2000, nativeBlocks * 3 / 4}, // room for longer lines
		"new":         {func() { leaktest.New(1000) }, []string{"malloc", "leaktest_new"}, 1000, nativeBlocks},
		"aligned new": {func() { leaktest.NewAligned(1000) }, []string{"leaktest_new_aligned"}, 1024 + 128, nativeBlocks},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, 1)
			allocates(of.keep)
			both := write(t)
			wantBlocks(t, both, "alloc_objects", nativeBlocks, 8*nativeBlocks, of.functions...)
			wantBlocks(t, both, "inuse_objects", of.least, nativeBlocks, of.functions...)
			wantBlocks(t, both, "inuse_space", of.least*1000, nativeBlocks*of.room, of.functions...)
		})
	}
	t.Run("delete", func(t *testing.T) {
		start(t, 1)
		allocates(func() { leaktest.NewAndDelete(1000) })
		both := write(t)
		wantBlocks(t, both, "alloc_space", nativeBlocks*1000, nativeBlocks*1000, "malloc", "leaktest_new_and_delete")
		wantBlocks(t, both, "inuse_space", 0, 0)
	})
}

const libraryInC = `
#include <stdlib.h>
__attribute__((noinline)) static void *library_inside(size_t bytes) { return malloc(bytes); }
void *library_keep(size_t bytes) { char *block = library_inside(bytes); block[0] = 1; return block; }
`

const libraryInRust = `
#[inline(never)]
fn library_inside(bytes: usize) -> Vec<u8> { Vec::with_capacity(bytes) }
#[no_mangle]
pub extern "C" fn library_keep(bytes: usize) -> *mut u8 {
    let mut block = library_inside(bytes);
    block.push(1);
    Box::leak(block.into_boxed_slice()).as_mut_ptr()
}
`

// Libraries that are loaded while the program runs allocate by the executable's malloc as well.
func TestBlocksOfLoadedLibraries(t *testing.T) {
	for _, of := range []struct {
		compiler, source, text string
		flags                  []string
	}{
		{"cc", "library.c", libraryInC, []string{"-O2", "-shared", "-fPIC"}},
		{"rustc", "library.rs", libraryInRust, []string{"-O", "--crate-type", "cdylib"}},
	} {
		t.Run(of.source, func(t *testing.T) {
			compiler, err := exec.LookPath(of.compiler)
			if err != nil {
				t.Skip("no ", of.compiler)
			}
			source, library := filepath.Join(t.TempDir(), of.source), filepath.Join(t.TempDir(), "library.so")
			if err := os.WriteFile(source, []byte(of.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(compiler, append(of.flags, "-o", library, source)...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			keep, err := leaktest.Load(library)
			if err != nil {
				t.Fatal(err)
			}
			start(t, 1) // afterwards: for a moment the walk does not know what is loaded meanwhile
			allocates(func() { keep(1000) })
			wantBlocks(t, write(t), "inuse_objects", nativeBlocks, nativeBlocks, "library_keep", "leaktest_call")
		})
	}
}

// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

// Package leaktest allocates in C, for the tests of package nativeheap.
package leaktest

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Where a sanitizer looks for leaks: these are meant.
__attribute__((weak)) void __lsan_ignore_object(const void *block);

static void *leaktest_meant(void *block) {
  if (__lsan_ignore_object) __lsan_ignore_object(block);
  return block;
}

static void *volatile leaktest_kept;
__attribute__((noinline)) static void leaktest_keep(size_t bytes) { leaktest_kept = leaktest_meant(malloc(bytes)); }
__attribute__((noinline)) static void leaktest_keep_nothing(size_t bytes) {
  void *volatile block = malloc(bytes); // a thread's own: many call this at once
  free(block);
}

// What libc allocates for its caller. `text` has no end of line.
__attribute__((noinline)) static void leaktest_strdup(const char *text) { leaktest_kept = leaktest_meant(strdup(text)); }
__attribute__((noinline)) static void leaktest_asprintf(const char *text) {
  char *copy = NULL;
  leaktest_kept = asprintf(&copy, "%s", text) < 0 ? NULL : leaktest_meant(copy);
}
__attribute__((noinline)) static int leaktest_getline(const char *text) {
  char *line = NULL;
  size_t room = 0;
  FILE *from = fmemopen((void *)text, strlen(text), "r");
  const ssize_t got = from ? getline(&line, &room, from) : -1;
  if (from) fclose(from);
  leaktest_kept = leaktest_meant(line);
  return got == (ssize_t)strlen(text);
}

// C++'s, in leaktest.cc.
void leaktest_new(size_t bytes);
void leaktest_new_aligned(size_t bytes);
void leaktest_new_and_delete(size_t bytes);

// A library's function that keeps a block which it returns.
typedef void *leaktest_keeps(size_t bytes);
static leaktest_keeps *leaktest_load(const char *path) {
  void *library = dlopen(path, RTLD_NOW);
  return library ? (leaktest_keeps *)dlsym(library, "library_keep") : NULL;
}
static const char *leaktest_load_fault(void) { return dlerror(); }
__attribute__((noinline)) static void leaktest_call(leaktest_keeps *keeps, size_t bytes) {
  leaktest_kept = leaktest_meant(keeps(bytes));
}

__attribute__((noinline)) static void *leaktest_take(size_t bytes) { return malloc(bytes); }
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Keep leaks a block.
func Keep(bytes int) { C.leaktest_keep(C.size_t(bytes)) }

// KeepNothing gives its block back.
func KeepNothing(bytes int) { C.leaktest_keep_nothing(C.size_t(bytes)) }

// Strdup, Asprintf and Getline leak what libc makes of a text for its caller; false: it could not.
func Strdup(text string) bool {
	return with(text, func(c *C.char) bool { C.leaktest_strdup(c); return true })
}
func Asprintf(text string) bool {
	return with(text, func(c *C.char) bool { C.leaktest_asprintf(c); return true })
}
func Getline(text string) bool {
	return with(text, func(c *C.char) bool { return C.leaktest_getline(c) != 0 })
}

func with(text string, call func(*C.char) bool) bool {
	b := append([]byte(text), 0) // C.CString would be a block of C's
	return call((*C.char)(unsafe.Pointer(&b[0])))
}

// New leaks a block of C++'s operator new, NewAligned one of that for more alignment than malloc's.
func New(bytes int)        { C.leaktest_new(C.size_t(bytes)) }
func NewAligned(bytes int) { C.leaktest_new_aligned(C.size_t(bytes)) }

// NewAndDelete gives its block back.
func NewAndDelete(bytes int) { C.leaktest_new_and_delete(C.size_t(bytes)) }

// Load is library_keep of a shared library, which leaks a block.
func Load(path string) (keep func(bytes int), err error) {
	b := append([]byte(path), 0)
	keeps := C.leaktest_load((*C.char)(unsafe.Pointer(&b[0])))
	if keeps == nil {
		return nil, errors.New(C.GoString(C.leaktest_load_fault()))
	}
	return func(bytes int) { C.leaktest_call(keeps, C.size_t(bytes)) }, nil
}

// Take is a block for Give.
func Take(bytes int) unsafe.Pointer { return C.leaktest_take(C.size_t(bytes)) }

// Give gives it back.
func Give(block unsafe.Pointer) { C.free(block) }

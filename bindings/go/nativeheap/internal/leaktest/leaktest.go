// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

// Package leaktest allocates in C, for the tests of package nativeheap.
package leaktest

/*
#include <stdlib.h>

// Where a sanitizer looks for leaks: these are meant.
__attribute__((weak)) void __lsan_ignore_object(const void *block);

static void *volatile leaktest_kept;
__attribute__((noinline)) static void leaktest_keep(size_t bytes) {
  void *block = malloc(bytes);
  if (__lsan_ignore_object) __lsan_ignore_object(block);
  leaktest_kept = block;
}
__attribute__((noinline)) static void leaktest_keep_nothing(size_t bytes) {
  void *volatile block = malloc(bytes); // a thread's own: many call this at once
  free(block);
}
__attribute__((noinline)) static void *leaktest_take(size_t bytes) { return malloc(bytes); }
*/
import "C"

import "unsafe"

// Keep leaks a block.
func Keep(bytes int) { C.leaktest_keep(C.size_t(bytes)) }

// KeepNothing gives its block back.
func KeepNothing(bytes int) { C.leaktest_keep_nothing(C.size_t(bytes)) }

// Take is a block for Give.
func Take(bytes int) unsafe.Pointer { return C.leaktest_take(C.size_t(bytes)) }

// Give gives it back.
func Give(block unsafe.Pointer) { C.free(block) }

// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

#include <cstddef>
#include <new>

extern "C" {
__attribute__((weak)) void __lsan_ignore_object(const void *block);
void leaktest_new(size_t bytes);
void leaktest_new_aligned(size_t bytes);
void leaktest_new_and_delete(size_t bytes);
}

static void *volatile kept;

static void keep(void *block) {
  if (__lsan_ignore_object) __lsan_ignore_object(block);
  kept = block;
}

void leaktest_new(size_t bytes) { keep(new char[bytes]); }

void leaktest_new_aligned(size_t bytes) { keep(operator new(bytes, std::align_val_t(128))); }

void leaktest_new_and_delete(size_t bytes) {
  kept = new char[bytes]; // volatile: or both would be left out
  delete[] static_cast<char *>(kept);
}

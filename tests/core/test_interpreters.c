/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the providers for CPython and PHP read; with their own files, for what is static there. */
#include "support.h"

#include "platform/interpreted.h"

#include "php.c"
#include "python.c"

TestSuite(interpreters, .init = t_setup);

/* By hand, after Objects/lnotab_notes.txt and Objects/locations.md. */
Test(interpreters, lines_of_each_form_of_table) {
  static const uint8_t old[] = {6, 1, 50, 1, 200, 7};
  static const uint8_t pairs[] = {6, 1, 50, (uint8_t)-128, 10, 2};
  /* short form; one line; long with a delta of -1; none */
  static const uint8_t entries[] = {0x80 | 1, 0x00, 0x80 | 11 << 3 | 1, 0x01, 0x02, 0x80 | 14 << 3, 0x03, 0x00,
                                    0x01,     0x01, 0x80 | 15 << 3};
  cr_expect_eq(python_line(0x0309, old, sizeof(old), 10, 0), 10u);
  cr_expect_eq(python_line(0x0309, old, sizeof(old), 10, 6), 11u);
  cr_expect_eq(python_line(0x0309, old, sizeof(old), 10, 60), 12u);
  cr_expect_eq(python_line(0x0309, old, sizeof(old), 10, 300), 19u);
  cr_expect_eq(python_line(0x030a, pairs, sizeof(pairs), 10, 2), 11u);
  cr_expect_eq(python_line(0x030a, pairs, sizeof(pairs), 10, 10), 0u);
  cr_expect_eq(python_line(0x030a, pairs, sizeof(pairs), 10, 29), 13u);
  cr_expect_eq(python_line(0x030b, entries, sizeof(entries), 10, 2), 10u);
  cr_expect_eq(python_line(0x030b, entries, sizeof(entries), 10, 6), 11u);
  cr_expect_eq(python_line(0x030c, entries, sizeof(entries), 10, 8), 10u);
  cr_expect_eq(python_line(0x030d, entries, sizeof(entries), 10, 10), 0u);
  cr_expect_eq(python_line(0x030d, entries, sizeof(entries), 10, 4000), 0u);
}

#if defined(__x86_64__)

static uint64_t at(const void *code) { return (uint64_t)(uintptr_t)code; }

Test(interpreters, constants_of_the_linker) {
  /* mov 8(%rip),%rax; ret; and behind 8 bytes more the constant */
  static const uint8_t loads[32] = {
      0x48, 0x8b, 0x05, 9, 0, 0, 0, 0xc3, [16] = 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  /* endbr64; mov $-16,%rax; ret */
  static const uint8_t relaxed[32] = {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0xc7, 0xc0, 0xf0, 0xff, 0xff, 0xff, 0xc3};
  static const uint8_t pushes[32] = {0x55, 0x48, 0x8b, 0x05, 8, 0, 0, 0, 0xc3};
  static const uint8_t goes_on[32] = {0x48, 0x8b, 0x05, 8, 0, 0, 0, 0x90, 0xc3};
  uint64_t value;
  cr_assert(php_constant(&onstack_copied_memory, at(loads), &value));
  cr_expect_eq(value, (uint64_t)-8);
  cr_assert(php_constant(&onstack_copied_memory, at(relaxed), &value));
  cr_expect_eq(value, (uint64_t)-16);
  cr_expect(!php_constant(&onstack_copied_memory, at(pushes), &value));
  cr_expect(!php_constant(&onstack_copied_memory, at(goes_on), &value));
  cr_expect(!php_constant(&onstack_copied_memory, 0x10000, &value));
}

#endif

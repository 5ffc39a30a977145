/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * As much of Criterion's interface as tests/core asks for, because Debian has no Criterion for a foreign architecture
 * without a foreign root, and its workers are programs that qemu-user would have to start. Each test runs in a child of
 * its own; every assertion ends it.
 */
#ifndef ONSTACK_AARCH64_CRITERION_H
#define ONSTACK_AARCH64_CRITERION_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct quick_test {
  const char *suite, *name;
  void (*body)(void);
  const struct quick_test *next;
  void (*init)(void);
  unsigned timeout; /* seconds */
} quick_test;

/* In a constructor, so in the order of the file; a suite is a test without a body. */
void quick_register(quick_test *test);
void quick_fail(const char *file, int line, const char *what, const char *text, ...)
    __attribute__((format(printf, 4, 5), noreturn));
void quick_skip(const char *text, ...) __attribute__((format(printf, 1, 2), noreturn));
void quick_tell(const char *text, ...) __attribute__((format(printf, 1, 2)));

#define QUICK_REGISTER(id, ...)                                                                                             \
  __attribute__((constructor)) static void quick_register_##id(void) {                                                      \
    static quick_test test = {__VA_ARGS__};                                                                                 \
    quick_register(&test);                                                                                                  \
  }
#define Test(suite_, name_, ...)                                                                                            \
  static void quick_##suite_##_##name_(void);                                                                               \
  QUICK_REGISTER(suite_##_##name_, .suite = #suite_, .name = #name_, .body = quick_##suite_##_##name_, ##__VA_ARGS__)       \
  static void quick_##suite_##_##name_(void)
#define QUICK_SUITE(suite_, line, ...) QUICK_REGISTER(suite_##_at_##line, .suite = #suite_, ##__VA_ARGS__) struct quick_test
#define TestSuite(suite_, ...) QUICK_SUITE(suite_, suite, ##__VA_ARGS__)

#define cr_assert(condition, ...)                                                                                           \
  do {                                                                                                                      \
    if (!(condition)) quick_fail(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                                          \
  } while (0)
#define cr_assert_not(condition, ...) cr_assert(!(condition), ##__VA_ARGS__)
#define cr_assert_fail(...) cr_assert(false, ##__VA_ARGS__)
#define cr_assert_eq(a, b, ...) cr_assert((a) == (b), ##__VA_ARGS__)
#define cr_assert_neq(a, b, ...) cr_assert((a) != (b), ##__VA_ARGS__)
#define cr_assert_lt(a, b, ...) cr_assert((a) < (b), ##__VA_ARGS__)
#define cr_assert_leq(a, b, ...) cr_assert((a) <= (b), ##__VA_ARGS__)
#define cr_assert_gt(a, b, ...) cr_assert((a) > (b), ##__VA_ARGS__)
#define cr_assert_geq(a, b, ...) cr_assert((a) >= (b), ##__VA_ARGS__)
#define cr_assert_null(a, ...) cr_assert(!(a), ##__VA_ARGS__)
#define cr_assert_not_null(a, ...) cr_assert((a), ##__VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) cr_assert(strcmp(a, b) == 0, ##__VA_ARGS__)
#define cr_assert_str_neq(a, b, ...) cr_assert(strcmp(a, b) != 0, ##__VA_ARGS__)
#define cr_assert_arr_eq(a, b, size, ...) cr_assert(memcmp(a, b, size) == 0, ##__VA_ARGS__)
#define cr_assert_float_eq(a, b, epsilon, ...) cr_assert((a) - (b) <= (epsilon) && (b) - (a) <= (epsilon), ##__VA_ARGS__)

#define cr_expect cr_assert
#define cr_expect_not cr_assert_not
#define cr_expect_eq cr_assert_eq
#define cr_expect_geq cr_assert_geq
#define cr_expect_leq cr_assert_leq
#define cr_expect_lt cr_assert_lt
#define cr_expect_null cr_assert_null
#define cr_expect_str_eq cr_assert_str_eq
#define cr_expect_str_neq cr_assert_str_neq
#define cr_skip quick_skip
#define cr_skip_test quick_skip
#define cr_log_info quick_tell
#define cr_log_error quick_tell

#endif

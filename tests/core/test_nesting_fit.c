/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whether a thread that no tick has met may have a small alternate stack: where somebody in the process makes some. */
#include "sampler/signal/nesting.h"
#include "support.h"

#include <dlfcn.h>

TestSuite(nesting_fit, .init = t_setup);

Test(nesting_fit, whoever_makes_alternate_stacks_is_seen_as_long_as_it_is_there) {
  cr_assert_not(onstack_nesting_others_ask(), "this program has none, nor have its libraries");
  char path[4096] = {0};
  cr_assert_gt(readlink("/proc/self/exe", path, sizeof(path) - 16), 0);
  strcpy(strrchr(path, '/') + 1, "stacks.so");
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  cr_assert(library, "%s", dlerror());
  cr_assert(onstack_nesting_others_ask());
  cr_assert_eq(dlclose(library), 0);
  cr_assert_not(onstack_nesting_others_ask());
}

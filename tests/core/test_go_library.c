/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Libraries with Go's tables that go away again, as one does whose dlopen fails: forgotten, and never read in vain. */
#include "support.h"

#include "sampler/session/code_map_update.h"
#include "sampler/modules/go_runtime.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/go_stack.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

TestSuite(go_library, .init = t_setup);

static void *open_library_in(Lmid_t space, const char *name) {
  char path[4096 + 64];
  ssize_t length = readlink("/proc/self/exe", path, 4000);
  cr_assert_gt(length, 0);
  path[length] = 0;
  strcpy(strrchr(path, '/') + 1, name);
  return dlmopen(space, path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_library(const char *name) { return open_library_in(LM_ID_BASE, name); }

static uint64_t open_text(const char *name, void **library) {
  *library = open_library(name);
  cr_assert_not_null(*library, "%s", dlerror());
  void *text = dlsym(*library, "go_text");
  cr_assert_not_null(text);
  return (uint64_t)(uintptr_t)text;
}

static int32_t depth_at(uint64_t address) {
  const onstack_go_runtime *go = onstack_code_find_go(address);
  onstack_go_frame frame;
  return go && onstack_go_frame_at(go, address, &frame) ? frame.depth : -1;
}

Test(go_library, a_closed_one_is_not_read_any_more_and_then_forgotten) {
  void *library;
  const uint64_t text = open_text("go_library.so", &library);
  onstack_code_map_refresh(NULL);
  const onstack_go_runtime *go = onstack_code_find_go(text);
  cr_assert_not_null(go);
  cr_assert(onstack_go_runtime_is_present());
  cr_assert_eq(depth_at(text), 8);
  cr_assert_eq(onstack_code_go_kind(go, text + 64), ONSTACK_GO_ROOT);
  dlclose(library);
  cr_assert_null(dlsym(RTLD_DEFAULT, "go_text"));
  /* A walk that found the entry before goes on with it. */
  onstack_go_frame frame;
  cr_assert(onstack_go_frame_at(go, text, &frame));
  cr_assert_eq(frame.depth, 8);
  onstack_code_map_refresh(NULL);
  cr_assert_null(onstack_code_find_go(text));
  cr_assert_not(onstack_go_runtime_is_present());
}

/* An empty directory over /proc, in a mount namespace of this test's own process. */
Test(go_library, without_proc_one_is_found_too) {
  void *library;
  const uint64_t text = open_text("go_library.so", &library);
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("none", "/proc", "tmpfs", 0, NULL) != 0)
    cr_skip("no mount namespace here");
  onstack_options options = t_options(100, NULL, NULL);
  onstack_session *session;
  options.signal = SIGUSR2;
  cr_expect_eq(onstack_session_start(&options, &session), ONSTACK_E_SIGNAL, "a signal that a Go runtime does not forgive");
  cr_expect_eq(depth_at(text), 8);
}

/* A namespace of its own (dlmopen), which the loader's list does not name. */
Test(go_library, one_in_another_namespace_comes_and_goes) {
  void *library = open_library_in(LM_ID_NEWLM, "go_library.so");
  cr_assert_not_null(library, "%s", dlerror());
  const uint64_t text = (uint64_t)(uintptr_t)dlsym(library, "go_text");
  cr_assert_neq(text, 0);
  onstack_code_map_refresh(NULL);
  cr_assert_eq(depth_at(text), 8);
  dlclose(library);
  onstack_code_map_refresh(NULL);
  cr_assert_null(onstack_code_find_go(text));
}

Test(go_library, another_one_at_the_same_place_has_its_own_frames) {
  void *library;
  const uint64_t first = open_text("go_library.so", &library);
  onstack_code_map_refresh(NULL);
  cr_assert_eq(depth_at(first), 8);
  dlclose(library);
  const uint64_t second = open_text("go_library_24.so", &library);
  onstack_code_map_refresh(NULL);
  cr_assert_eq(depth_at(second), 24);
  if (first != second) cr_skip("the second library lies elsewhere");
}

Test(go_library, more_come_and_go_than_there_is_room_for_at_once) {
  for (unsigned i = 0; i < 5 * ONSTACK_GO_RUNTIMES; i++) {
    void *library;
    const uint64_t text = open_text("go_library.so", &library);
    onstack_code_map_refresh(NULL);
    cr_assert_eq(depth_at(text), 8, "%u", i);
    dlclose(library);
    onstack_code_map_refresh(NULL);
    cr_assert_eq(depth_at(text), -1, "%u", i);
  }
}

static uint32_t ended;

static void *fail_to_open(void *argument) {
  for (unsigned i = 0; i < *(unsigned *)argument; i++)
    if (open_library("go_library_fails.so")) _exit(3);
  onstack_publish(&ended, 1u);
  return NULL;
}

Test(go_library, opens_that_fail_do_not_hurt_who_looks_at_them) {
  pthread_t thread;
  unsigned opens = 5000 * t_repeat();
  cr_assert_null(open_library("go_library_fails.so"));
  pthread_create(&thread, NULL, fail_to_open, &opens);
  while (!onstack_observe(&ended)) onstack_code_map_refresh(NULL);
  pthread_join(thread, NULL);
  onstack_code_map_refresh(NULL);
  cr_assert_not(onstack_go_runtime_is_present());
}

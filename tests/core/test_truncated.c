/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library whose file was truncated in place: its pages are mapped, and a load from them raises SIGBUS. What the core reads of
 * loaded objects it reads by copies. Each case is a forked child, which ends by _exit: the loader itself would die in the
 * library's destructors.
 */
#include "platform/loader.h"
#include "sampler/interpreter/interpreter.h"
#include "sampler/signal/nesting.h"
#include "sampler/session/code_map_update.h"
#include "sampler/modules/modules.h"
#include "profile/maps/maps.h"
#include "support.h"
#include "onstack/profile.h"
#include "onstack/labels.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(truncated, .init = t_setup);

static char library[256];
static void *opened;

static void library_open(void) {
  static char bytes[1 << 18];
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, 4000);
  cr_assert_gt(length, 0);
  path[length] = 0;
  strcpy(strrchr(path, '/') + 1, "span.so"); /* with thread-local storage, so that it is asked for spans */
  FILE *in = fopen(path, "rb");
  cr_assert_not_null(in);
  const size_t size = fread(bytes, 1, sizeof(bytes), in);
  fclose(in);
  snprintf(library, sizeof(library), "/tmp/onstack-truncated-%d.so", getpid());
  FILE *out = fopen(library, "wb");
  cr_assert_not_null(out);
  cr_assert_eq(fwrite(bytes, 1, size, out), size);
  cr_assert_eq(fclose(out), 0);
  opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  cr_assert_not_null(opened, "%s", dlerror());
}

static int note_headers(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  if (info->dlpi_name && strcmp(info->dlpi_name, library) == 0) *(int *)data = info->dlpi_phnum;
  return 0;
}

static int discard(void *data, const void *bytes, size_t size) {
  (void)data, (void)bytes, (void)size;
  return 0;
}

static int read_headers(void) {
  int headers = -1;
  onstack_loader_each(note_headers, &headers);
  return headers == 0 ? 0 : 1;
}

static int read_symbols(void) {
  static const char *const name = "nobody_exports_this";
  onstack_symbols_memory memory = {0};
  onstack_loop_code found;
  onstack_nesting_others_ask();
  onstack_thread_spans_use(ONSTACK_ON);
  return onstack_symbols_look(&name, 1, 1, &memory, &found) ? 1 : 0;
}

static int read_code(void) {
  onstack_profile_maps maps = {0};
  onstack_modules_refresh(SIZE_MAX / 2);
  onstack_code_map_refresh(NULL);
  return onstack_profile_maps_ask_loader(&maps) ? 0 : 1;
}

static int run_session(void) {
  onstack_profile *profile;
  onstack_options options;
  onstack_session *session;
  if (onstack_profile_new(NULL, &profile) != 0 || onstack_options_init(&options, sizeof(options)) != 0) return 1;
  options.sink = onstack_profile_sink;
  options.sink_data = profile;
  if (onstack_session_start(&options, &session) != 0) return 2;
  t_burn(0.1);
  if (onstack_session_free(session) != 0) return 3;
  return onstack_profile_write_pprof(profile, NULL, discard, NULL) == 0 ? 0 : 4;
}

static void check(int (*run)(void), bool cut_first) {
  library_open();
  const pid_t child = fork();
  if (child == 0) {
    if (!cut_first) onstack_modules_refresh(SIZE_MAX / 2);
    _exit(truncate(library, 0) == 0 ? run() : 99);
  }
  const int status = t_wait(child);
  unlink(library);
  cr_expect_eq(status, 0, "%d", status);
  _exit(status != 0); /* the file is gone for this process, too */
}

Test(truncated, its_headers_are_not_loaded) { check(read_headers, true); }
Test(truncated, its_symbols_are_not_loaded) { check(read_symbols, true); }
Test(truncated, its_code_is_not_described) { check(read_code, true); }
Test(truncated, it_is_left_out_after_it_was_known) { check(read_code, false); }
Test(truncated, a_session_runs_beside_it) { check(run_session, true); }

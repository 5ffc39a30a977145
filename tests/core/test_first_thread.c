/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A process whose first thread has ended by pthread_exit: /proc/self shows a thread without memory, files and program. */
#include "platform/proc.h"
#include "platform/process.h"
#include "sampler/source/look.h"
#include "sampler/unwind/memory.h"
#include "support.h"
#include "onstack/profile.h"
#include "onstack/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(first_thread, .init = t_setup);

/* Runs in the second thread of a child; returns 0, or the step that failed. */
static int (*second_runs)(void);

static void *second_main(void *unused) {
  char state[64];
  (void)unused;
  do { /* until the first one has ended */
    t_sleep(0.001);
  } while (readlink("/proc/self/exe", state, sizeof(state)) >= 0);
  _exit(second_runs());
  return NULL;
}

static void check_without_first_thread(int (*runs)(void)) {
  second_runs = runs;
  fflush(NULL);
  const int child = fork();
  if (child == 0) {
    pthread_t thread;
    t_deadline(30);
    if (pthread_create(&thread, NULL, second_main, NULL) != 0) _exit(99);
    pthread_exit(NULL);
  }
  const int status = t_wait(child);
  if (status == 77) cr_skip("this kernel does not tell what is asked for here");
  cr_assert_eq(status, 0, "step %d", status);
}

static int memory_and_files(void) {
  const uint64_t known[2] = {0x1122334455667788, 42};
  uint64_t read[2] = {0, 0};
  char path[256];
  if (!onstack_process_memory_read((uint64_t)(uintptr_t)known, read, sizeof(read)) || read[1] != 42) return 1;
  if (readlink(onstack_own_executable(), path, sizeof(path)) <= 0) return 2;
  return 0;
}
Test(first_thread, memory_files_and_the_program_are_found_without_it) { check_without_first_thread(memory_and_files); }

typedef struct text {
  char bytes[1 << 16];
  size_t used;
} text;

static int text_put(void *data, const void *bytes, size_t length) {
  text *out = data;
  if (length >= sizeof(out->bytes) - out->used) return 1;
  memcpy(out->bytes + out->used, bytes, length);
  out->used += length;
  out->bytes[out->used] = 0;
  return 0;
}

static int resident_size(void) {
  static text out;
  const char key[] = "onstack.memory bytes=";
  if (onstack_session_memory_text(NULL, NULL, text_put, &out) != 0) return 1;
  return strncmp(out.bytes, key, sizeof(key) - 1) == 0 && strtoull(out.bytes + sizeof(key) - 1, NULL, 10) > 1 << 16 ? 0 : 2;
}
Test(first_thread, the_account_of_memory_is_whole_without_it) { check_without_first_thread(resident_size); }

static int sleeper_pipe[2];

__attribute__((noinline)) static void *first_thread_sleeper(void *unused) {
  char byte;
  (void)unused;
  while (read(sleeper_pipe[0], &byte, 1) != 1) continue;
  return NULL;
}

static int stack_of_a_sleeper(void) {
  static text out;
  pthread_t thread;
  if (!onstack_look_works()) return 77;
  if (pipe(sleeper_pipe) != 0 || pthread_create(&thread, NULL, first_thread_sleeper, NULL) != 0) return 1;
  if (onstack_dump(NULL, text_put, &out) < 0) return 2;
  if (!strstr(out.bytes, "first_thread_sleeper")) return 3;
  return strstr(out.bytes, "[truncated") ? 4 : 0;
}
Test(first_thread, blocked_threads_reach_their_root_without_it) { check_without_first_thread(stack_of_a_sleeper); }

static int module_visit(void *data, const onstack_module_stats *module) {
  if (strstr(module->path, "test_first_thread")) *(bool *)data = true;
  return 0;
}

static int name_of_the_program(void) {
  bool named = false;
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session;
  if (onstack_session_start(&options, &session) != 0) return 1;
  for (int i = 0; i < 200 && !named; i++) {
    t_burn(0.01);
    onstack_session_modules(session, module_visit, &named);
  }
  onstack_session_free(session);
  return named ? 0 : 2;
}
Test(first_thread, the_program_has_its_name_without_it) { check_without_first_thread(name_of_the_program); }

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "copies.h"

#include "support.h"

#include "sampler/signal/copy.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

t_copy t_copies[T_COPIES];

/* Makes the library in `file` one of another kind: the mark by which copies know each other stands before both entries. */
static void change_mark(int file, off_t bytes) {
  static const char mark[] = ONSTACK_COPY_MARK;
  int changed = 0;
  char *text = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  cr_assert_neq(text, MAP_FAILED);
  for (off_t i = 0; i + (off_t)sizeof(mark) <= bytes; i++) {
    if (memcmp(text + i, mark, sizeof(mark) - 1) != 0) continue;
    text[i + (off_t)sizeof(mark) - 2] = '9';
    changed++;
  }
  cr_assert_geq(changed, 2, "%d places", changed);
  munmap(text, (size_t)bytes);
}

/* A library is the same copy however often it is opened; a copy of its file is another one. */
static void *open_another(int number, bool of_another_kind) {
  char path[4096], to[4200];
  struct stat file;
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  cr_assert_gt(length, 0);
  path[length] = 0;
  char *end = strstr(path, "/tests/core/");
  cr_assert_not_null(end);
  strcpy(end, "/lib/libonstack.so.0");
  snprintf(to, sizeof(to), "%.*s/tests/core/copy-%d-%d.so", (int)(end - path), path, (int)getpid(), number);
  int in = open(path, O_RDONLY), out = open(to, O_RDWR | O_CREAT | O_TRUNC, 0700);
  cr_assert(in >= 0 && out >= 0 && fstat(in, &file) == 0, "%s", path);
  for (off_t left = file.st_size; left > 0;) {
    ssize_t sent = sendfile(out, in, NULL, (size_t)left);
    cr_assert_gt(sent, 0);
    left -= sent;
  }
  if (of_another_kind) change_mark(out, file.st_size);
  close(in);
  close(out);
  void *library = dlopen(to, RTLD_NOW | RTLD_LOCAL);
  unlink(to);
  cr_assert_not_null(library, "%s", dlerror());
  return library;
}

void t_copies_open(bool of_another_kind) {
  t_copies[0] = (t_copy){onstack_options_init,
                         onstack_session_start,
                         onstack_session_stop,
                         onstack_session_poll,
                         onstack_session_free,
                         onstack_session_stats,
                         NULL};
  for (int i = 1; i < T_COPIES; i++) {
    void *library = open_another(i, of_another_kind);
    *(void **)&t_copies[i].init = dlsym(library, "onstack_options_init");
    *(void **)&t_copies[i].start = dlsym(library, "onstack_session_start");
    *(void **)&t_copies[i].stop = dlsym(library, "onstack_session_stop");
    *(void **)&t_copies[i].poll = dlsym(library, "onstack_session_poll");
    *(void **)&t_copies[i].release = dlsym(library, "onstack_session_free");
    *(void **)&t_copies[i].stats = dlsym(library, "onstack_session_stats");
    for (int j = 0; j < i; j++) cr_assert_neq(*(void **)&t_copies[i].start, *(void **)&t_copies[j].start, "the same copy");
  }
}

onstack_stats t_copy_stats(const t_copy *of) {
  onstack_stats stats = {.size = sizeof(stats)};
  cr_assert_eq(of->stats(of->session, &stats), 0);
  return stats;
}

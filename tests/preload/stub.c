/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Preloaded after the library, it stands between that and libc:
 *   STUB_THREADS=n   the keeper's first n calls of pthread_create fail with EAGAIN, as while another thread is in exec
 *   STUB_KILL=1      the keeper's first write is the end of the process, by SIGKILL
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int stub_threads, stub_kill;

__attribute__((constructor)) static void stub_begin(void) {
  if (getenv("STUB_THREADS")) stub_threads = atoi(getenv("STUB_THREADS"));
  stub_kill = !!getenv("STUB_KILL");
}

static int stub_is_keeper(void) {
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  return strcmp(name, "onstack-keeper") == 0;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  typedef int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (stub_threads > 0 && stub_is_keeper()) return stub_threads--, EAGAIN;
  return ((create)(uintptr_t)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, run, argument);
}

ssize_t write(int file, const void *bytes, size_t length) {
  typedef ssize_t (*put)(int, const void *, size_t);
  if (stub_kill && stub_is_keeper()) kill(getpid(), SIGKILL);
  return ((put)(uintptr_t)dlsym(RTLD_NEXT, "write"))(file, bytes, length);
}

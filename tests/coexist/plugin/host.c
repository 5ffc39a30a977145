/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Opens the plugin and closes it while its ticks come, and while foreign signals go through its handler. */
#include "../support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct plugin {
  void *library;
  int (*start)(void);
  unsigned long (*stop)(void);
} plugin;

static char path[4096];
static volatile sig_atomic_t owner_calls;
static void owner(int signal) {
  (void)signal;
  owner_calls++;
}

static plugin open_plugin(void) {
  plugin opened = {.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
  if (!opened.library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  *(void **)&opened.start = dlsym(opened.library, "plugin_start");
  *(void **)&opened.stop = dlsym(opened.library, "plugin_stop");
  return opened;
}

static bool is_mapped(void) {
  char line[5000];
  bool found = false;
  FILE *maps = fopen("/proc/self/maps", "re");
  while (maps && fgets(line, sizeof(line), maps))
    if (strstr(line, path)) found = true;
  if (maps) fclose(maps);
  return found;
}

static atomic_int quit;
static void *burn_all_the_time(void *unused) {
  while (!atomic_load(&quit)) burn(0.01);
  return unused;
}

int main(void) {
  pthread_t threads[2];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 20);
  if (length < 0) return 2;
  path[length] = 0;
  strcpy(strrchr(path, '/') + 1, "plugin.so");
  signal(SIGPROF, owner);

  plugin unused = open_plugin();
  dlclose(unused.library);
  check(!is_mapped(), "a plugin that never profiled is closed as any other", "closed without a start");

  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, burn_all_the_time, NULL);
  raw_action before = current_action();
  plugin first = open_plugin();
  int result = first.start();
  double cpu = process_cpu();
  burn(0.2);
  dlclose(first.library);
  check(is_mapped(), "the running copy keeps itself in the process", "start returned %d", result);
  burn(0.3); /* ticks come; a copy that is gone would be a SIGSEGV here */
  for (int i = 0; i < 10; i++) raise(SIGPROF);
  check(owner_calls == 10, "the found handler is served meanwhile", "%d of 10 signals", (int)owner_calls);

  plugin again = open_plugin();
  check(again.stop == first.stop, "opened again it is the same copy", "%p, %p", *(void **)&first.stop,
        *(void **)&again.stop);
  cpu = process_cpu() - cpu;
  unsigned long ticks = again.stop();
  check((double)ticks > cpu * 1000 * 0.85, "and has all its ticks", "%lu of %.0f", ticks, cpu * 1000);
  raw_action after = current_action();
  check(same_action(&before, &after), "its stop puts the previous action back", "handler %#lx",
        (unsigned long)after.handler);
  dlclose(again.library);
  burn(0.1);
  atomic_store(&quit, 1);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return check_status();
}

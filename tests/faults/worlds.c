/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worlds.h"

#include "onstack/onstack.h"

#include <errno.h>
#include <signal.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#define WORLD_USER 54321 /* nobody's: its limits are its own */

static void world_skip(plan *plan, const char *what) {
  snprintf(plan->skipped, sizeof(plan->skipped), "%s: %s", what, strerror(errno));
}

static void world_limit(plan *plan, int what, rlim_t value) {
  struct rlimit limit = {value, value};
  if (setrlimit((__rlimit_resource_t)what, &limit) != 0) world_skip(plan, "setrlimit");
}

/* Root's threads are not limited. */
static void no_threads(plan *plan) {
  world_limit(plan, RLIMIT_NPROC, 0);
  if (setresuid(WORLD_USER, WORLD_USER, WORLD_USER) != 0) world_skip(plan, "setresuid");
}
static void no_threads_polled(plan *plan) {
  plan->polled = true;
  no_threads(plan);
}
static void no_descriptors(plan *plan) { world_limit(plan, RLIMIT_NOFILE, 0); }
static void no_queue(plan *plan) { world_limit(plan, RLIMIT_SIGPENDING, 0); }
static void short_queue(plan *plan) { world_limit(plan, RLIMIT_SIGPENDING, 2); }
static void no_file_size(plan *plan) { world_limit(plan, RLIMIT_FSIZE, 0); }
static void no_locked_memory(plan *plan) { world_limit(plan, RLIMIT_MEMLOCK, 0); }
static void short_stack(plan *plan) { world_limit(plan, RLIMIT_STACK, (rlim_t)192 << 10); }

static volatile sig_atomic_t world_told;
static void world_is_told(int signal) { world_told = signal; }

/* The soft limit is passed, and its signal, which the host has a handler for, comes each second from now on. */
static void no_time(plan *plan) {
  struct rlimit limit = {1, RLIM_INFINITY};
  struct sigaction action = {.sa_handler = world_is_told, .sa_flags = SA_RESTART};
  if (sigaction(SIGXCPU, &action, NULL) != 0 || setrlimit(RLIMIT_CPU, &limit) != 0) {
    world_skip(plan, "setrlimit");
    return;
  }
  while (!world_told) continue;
}

static void world_memory(plan *plan, size_t more) {
  char text[64] = "";
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file || !fgets(text, sizeof(text), file)) world_skip(plan, "/proc/self/statm");
  if (file) fclose(file);
  world_limit(plan, RLIMIT_AS, (rlim_t)strtoull(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE) + more);
}
static void memory_0(plan *plan) { world_memory(plan, 0); }
static void memory_1(plan *plan) { world_memory(plan, (size_t)1 << 20); }
static void memory_2(plan *plan) { world_memory(plan, (size_t)2 << 20); }
static void memory_4(plan *plan) { world_memory(plan, (size_t)4 << 20); }
static void memory_8(plan *plan) { world_memory(plan, (size_t)8 << 20); }
static void memory_16(plan *plan) { world_memory(plan, (size_t)16 << 20); }
static void memory_64(plan *plan) { world_memory(plan, (size_t)64 << 20); }

/* What is private and writable, malloc's and the library's own: data. Thread stacks that are there count too. */
static void world_data(plan *plan, size_t more) {
  char line[128];
  unsigned long long kibibytes = 0;
  FILE *file = fopen("/proc/self/status", "re");
  while (file && fgets(line, sizeof(line), file)) sscanf(line, "VmData: %llu kB", &kibibytes);
  if (file) fclose(file);
  if (!kibibytes) world_skip(plan, "/proc/self/status");
  world_limit(plan, RLIMIT_DATA, ((rlim_t)kibibytes << 10) + more);
}
static void data_0(plan *plan) { world_data(plan, 0); }
static void data_1(plan *plan) { world_data(plan, (size_t)1 << 20); }
static void data_8(plan *plan) { world_data(plan, (size_t)8 << 20); }
static void data_64(plan *plan) { world_data(plan, (size_t)64 << 20); }

static bool world_own_mounts(plan *plan) {
  if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0) return true;
  world_skip(plan, "no mounts of its own");
  return false;
}

static void no_proc(plan *plan) {
  if (world_own_mounts(plan) && mount("none", "/proc", "tmpfs", 0, NULL) != 0) world_skip(plan, "mount over /proc");
}

/* As with hidepid or a masked /proc: the directory is there, and what is read of it is refused. */
static void no_maps(plan *plan) {
  if (world_own_mounts(plan) && mount("/dev/null", "/proc/self/maps", NULL, MS_BIND, NULL) != 0)
    world_skip(plan, "mount over /proc/self/maps");
}

static void read_only(plan *plan) {
  if (world_own_mounts(plan) && (mount("/", "/", NULL, MS_BIND | MS_REC, NULL) != 0 ||
                                 mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0))
    world_skip(plan, "remount");
}

static void no_files(plan *plan) {
  char path[] = "/tmp/onstack-faults-XXXXXX";
  if (!mkdtemp(path) || chdir(path) != 0) world_skip(plan, path);
  if (rmdir(path) != 0 || chroot(".") != 0) world_skip(plan, "chroot");
}

static const world worlds[] = {
    {"no threads", -EAGAIN, NULL, no_threads},
    {"no threads, polled", WORLD_WORKS, NULL, no_threads_polled},
    {"no descriptors", WORLD_WORKS, NULL, no_descriptors},
    {"no signal queue", ONSTACK_E_CLOCK, NULL, no_queue},
    {"queue of two", WORLD_MAY_REFUSE, NULL, short_queue}, /* other processes of the user count */
    {"file size 0", WORLD_WORKS, NULL, no_file_size},
    {"locked memory 0", WORLD_WORKS, NULL, no_locked_memory},
    {"memory + 0", -ENOMEM, NULL, memory_0},
    {"memory + 1 MiB", -ENOMEM, NULL, memory_1},
    {"memory + 2 MiB", -ENOMEM, NULL, memory_2},
    {"memory + 4 MiB", -ENOMEM, NULL, memory_4},
    {"memory + 8 MiB", WORLD_MAY_REFUSE, NULL, memory_8},
    {"memory + 16 MiB", WORLD_MAY_REFUSE, NULL, memory_16},
    {"memory + 64 MiB", WORLD_WORKS, NULL, memory_64},
    {"data + 0", -ENOMEM, NULL, data_0},
    {"data + 1 MiB", -ENOMEM, NULL, data_1},
    {"data + 8 MiB", WORLD_MAY_REFUSE, NULL, data_8},
    {"data + 64 MiB", WORLD_WORKS, NULL, data_64},
    {"a short stack", WORLD_WORKS, short_stack, NULL},
    {"no processor time", WORLD_WORKS, no_time, NULL},
    {"no /proc", WORLD_WORKS, no_proc, NULL},
    {"empty maps", WORLD_WORKS, no_maps, NULL},
    {"read-only root", WORLD_WORKS, read_only, NULL},
    {"no files at all", WORLD_WORKS, no_files, NULL},
};

const world *worlds_all(size_t *count) {
  *count = sizeof(worlds) / sizeof(worlds[0]);
  return worlds;
}

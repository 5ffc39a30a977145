/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/threads/task.h"

#include "platform/proc.h"
#include "platform/sys.h"
#include "sampler/threads/timer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>

/* The kernel keeps the id of a first thread that has ended, as a zombie, until the process ends. It has no memory any more, so
   nothing can be copied from there. Where the kernel copies nothing at all /proc has the thread's state. */
static bool task_is_zombie(uint32_t tid) {
  char here = 0, copy;
  const struct onstack_vector to = {(uint64_t)(uintptr_t)&copy, 1}, from = {(uint64_t)(uintptr_t)&here, 1};
  const long copied = onstack_sys_call6(SYS_process_vm_readv, (long)tid, (long)&to, 1, (long)&from, 1, 0);
  if (copied == 1 || copied == -ESRCH) return copied != 1;
  const char state = onstack_task_state(tid);
  return state == 'Z' || state == 'X';
}

bool onstack_task_is_gone(uint32_t tid) {
  const int32_t process = onstack_sys_getpid();
  if (onstack_sys_call3(SYS_tgkill, process, (long)tid, 0) == -ESRCH) return true;
  return tid == (uint32_t)process && task_is_zombie(tid);
}

/* Up to `room` bytes of /proc/self/task/<tid>/<what>; < 0 if the thread is gone, or nothing can be read. */
static ssize_t task_read_file(uint32_t tid, const char *what, char *text, size_t room) {
  char path[48];
  snprintf(path, sizeof(path), "/proc/self/task/%u/%s", tid, what);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t got = read(file, text, room);
  close(file);
  return got;
}

bool onstack_task_name(uint32_t tid, uint64_t name[2]) {
  char text[17];
  ssize_t got = task_read_file(tid, "comm", text, sizeof(text));
  if (got <= 0) return false;
  if (text[got - 1] == '\n') got--;
  if (got > 15) got = 15;
  memset(name, 0, 16);
  memcpy(name, text, (size_t)got);
  return true;
}

uint32_t onstack_task_cpu_us(uint32_t tid) {
  uint64_t ns;
  if (!onstack_timer_read_clock(onstack_timer_cpu_clock(tid), &ns)) return 0;
  return (uint32_t)(ns / 1000u) | 1u;
}

#define TASK_STATUS_BYTES 4096u

static void task_status(uint32_t tid, char text[TASK_STATUS_BYTES]) {
  ssize_t got = task_read_file(tid, "status", text, TASK_STATUS_BYTES - 1);
  text[got > 0 ? got : 0] = 0;
}

/* Whether the signal is in the mask of that name; negative: there is none. */
static int task_status_has(const char *text, const char *name, int32_t signal) {
  const char *line = strstr(text, name);
  if (!line) return -1;
  return (strtoull(line + strlen(name), NULL, 16) & ONSTACK_SIGBIT(signal)) != 0;
}

/* A letter as in proc(5). A name cannot stand for this line: a break in it is written as \\n. */
static char task_status_state(const char *text) {
  char state = 0;
  const char *line = strstr(text, "\nState:");
  return line && sscanf(line, " State: %c", &state) == 1 ? state : 0;
}

int onstack_task_blocks(uint32_t tid, int32_t signal) {
  char text[TASK_STATUS_BYTES];
  task_status(tid, text);
  return task_status_has(text, "\nSigBlk:", signal);
}

bool onstack_task_runs_open(uint32_t tid, int32_t signal) {
  char text[TASK_STATUS_BYTES];
  task_status(tid, text);
  return task_status_state(text) == 'R' && task_status_has(text, "\nSigBlk:", signal) == 0;
}

bool onstack_task_awaits(uint32_t tid, int32_t signal) {
  char text[TASK_STATUS_BYTES];
  task_status(tid, text);
  return task_status_state(text) == 't' || task_status_has(text, "\nSigPnd:", signal) > 0;
}

#define TASK_STAT_BYTES 512u

/* What proc(5) tells in stat, from the state (3) on; NULL: nothing. */
static const char *task_stat(uint32_t tid, char text[TASK_STAT_BYTES]) {
  ssize_t got = task_read_file(tid, "stat", text, TASK_STAT_BYTES - 1);
  text[got > 0 ? got : 0] = 0;
  return onstack_proc_stat_state(text);
}

char onstack_task_state(uint32_t tid) {
  char text[TASK_STAT_BYTES];
  const char *state = task_stat(tid, text);
  return state ? *state : 0;
}

int onstack_task_end(uint32_t tid) {
  char text[TASK_STAT_BYTES];
  const char *state = task_stat(tid, text);
  return state && *state == 'Z' ? atoi(strrchr(state, ' ')) : -1;
}

bool onstack_task_sleeps(uint32_t tid) {
  const char state = onstack_task_state(tid);
  return state != 'R' && state != 't';
}

int onstack_task_send_tick(uint32_t tid, int32_t signal, int32_t timer, uint64_t ticks, uint64_t cookie) {
  siginfo_t info;
  memset(&info, 0, sizeof(info));
  info.si_code = SI_TIMER;
  info.si_timerid = timer;
  info.si_overrun = (int)(ticks < INT32_MAX ? ticks - 1 : INT32_MAX);
  info.si_value.sival_ptr = (void *)(uintptr_t)cookie;
  return (int)onstack_sys_call4(SYS_rt_tgsigqueueinfo, onstack_sys_getpid(), (long)tid, signal, (long)&info);
}

bool onstack_task_waited(uint32_t tid, uint64_t *ns, uint64_t *timeslices) {
  char text[96];
  ssize_t got = task_read_file(tid, "schedstat", text, sizeof(text) - 1);
  text[got > 0 ? got : 0] = 0;
  unsigned long long waited, count;
  if (sscanf(text, "%*u %llu %llu", &waited, &count) != 2) return false;
  *ns = waited;
  *timeslices = count;
  return true;
}

uint64_t onstack_task_age_ns(uint32_t tid) {
  char text[TASK_STAT_BYTES];
  return onstack_proc_stat_age_ns(task_stat(tid, text));
}

/* The next number of a line, decimal or with 0x; false at its end. */
static bool task_next(const char **at, uint64_t *value) {
  char *end;
  errno = 0;
  *value = strtoull(*at, &end, 0);
  const bool found = end != *at && errno == 0;
  *at = end;
  return found;
}

onstack_task_call_status onstack_task_blocked_in(uint32_t tid, onstack_task_call *call) {
  char text[256];
  uint64_t values[9];
  size_t count = 0;
  ssize_t got = task_read_file(tid, "syscall", text, sizeof(text) - 1);
  if (got <= 0) return onstack_task_is_gone(tid) ? ONSTACK_TASK_GONE : ONSTACK_TASK_REFUSED;
  text[got] = 0;
  const char *at = text;
  while (count < ONSTACK_COUNT_OF(values) && task_next(&at, &values[count])) count++;
  if (count != 9 && count != 3) return ONSTACK_TASK_RUNS; /* "running" */
  *call = (onstack_task_call){.number = (int64_t)values[0], .sp = values[count - 2], .pc = values[count - 1]};
  if (count == 9) memcpy(call->arguments, &values[1], sizeof(call->arguments));
  return ONSTACK_TASK_BLOCKED;
}

/* What getdents64 writes (include/linux/dirent.h): entries of `bytes` each, and a name with its NUL. */
typedef struct task_entry {
  uint64_t inode;
  int64_t next;
  uint16_t bytes;
  uint8_t type;
  char name[];
} task_entry;

/* 0: "." and "..". */
static uint32_t task_id(const char *name) {
  uint32_t id = 0;
  for (; *name >= '0' && *name <= '9'; name++) id = id * 10 + (uint32_t)(*name - '0');
  return id;
}

int onstack_task_list_each(void (*visit)(void *data, uint32_t tid), void *data) {
  _Alignas(task_entry) char buffer[4096]; /* some hundred threads */
  uint32_t listed = 0;
  long got;
  const long file = onstack_sys_call4(SYS_openat, AT_FDCWD, (long)"/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (file < 0) return (int)file;
  while ((got = onstack_sys_call3(SYS_getdents64, file, (long)buffer, sizeof(buffer))) > 0) {
    for (long at = 0; at < got;) {
      const task_entry *entry = (const task_entry *)(buffer + at);
      const uint32_t tid = task_id(entry->name);
      at += entry->bytes;
      if (tid == 0) continue;
      listed++;
      visit(data, tid);
    }
  }
  onstack_sys_call1(SYS_close, file);
  if (got < 0) return (int)got;
  return listed > 0 ? 0 : -ENOENT;
}

uint64_t onstack_task_list_number(void) {
  struct stat tasks;
  if (stat("/proc/self/task", &tasks) != 0) return 0;
  if (tasks.st_nlink > 2) return tasks.st_nlink - 2; /* one link for each thread, and two more */
  errno = ENOTSUP;
  return 0;
}

bool onstack_task_list_is_foreign(void) {
  char path[64]; /* "<process>/task/<thread>" */
  const long length = onstack_sys_call4(SYS_readlinkat, AT_FDCWD, (long)"/proc/thread-self", (long)path, sizeof(path) - 1);
  if (length <= 0) return false; /* a kernel before 3.17, or no /proc */
  long last = length;
  path[length] = 0;
  while (last > 0 && path[last - 1] != '/') last--;
  return task_id(path + last) != (uint32_t)onstack_sys_gettid();
}

#define MOMENT_OFFERS 64u
#define MOMENT_NS 50000

void onstack_moment(uint32_t round) {
  if (round < MOMENT_OFFERS)
    sched_yield();
  else
    onstack_sys_sleep(MOMENT_NS);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/threads/task_list.h"

#include "platform/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

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

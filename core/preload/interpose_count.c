/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host that must be single-threaded at some moment, and makes sure of it: the process that Chromium, and what is built on
 * it, forks its children from looks at the links of /proc/self/task, and ends itself when there are more than its own
 * thread's. It asks about threads of its own, so ours are left out of the count.
 */
#include "platform/process.h"
#include "platform/sys.h"
#include "sampler/signal/own_threads.h"
#include "preload/keeper.h"
#include "preload/next.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define COUNT_WAIT_NS 20000000u /* for a thread of ours that is not made yet, or has just ended and is listed still */
#define COUNT_PAUSE_NS 500000
#define COUNT_LINKS_ALONE 3 /* ".", ".." and one thread */

typedef struct count_question {
  onstack_next_name name;
  int version; /* of struct stat, for the functions of glibc before 2.33 */
  int directory;
  const char *path;
  struct stat *there;
  int flags;
} count_question;

static int count_ask(const count_question *asked) {
  typedef int (*stat_at)(int, const char *, struct stat *, int);
  typedef int (*stat_of_version)(int, int, const char *, struct stat *, int);
  void (*next)(void) = onstack_next(asked->name);
  if (!next) return errno = ENOSYS, -1;
  if (asked->name == ONSTACK_NEXT_FXSTATAT)
    return ((stat_of_version)next)(asked->version, asked->directory, asked->path, asked->there, asked->flags);
  return ((stat_at)next)(asked->directory, asked->path, asked->there, asked->flags);
}

static bool count_is_meant(const char *path) {
  static const char name[] = "self/task";
  size_t length = path ? strlen(path) : 0;
  while (length > 0 && path[length - 1] == '/') length--;
  return length >= sizeof(name) - 1 && memcmp(path + length - (sizeof(name) - 1), name, sizeof(name) - 1) == 0;
}

/* How many links there would be without threads of ours; fewer than can be, while one of them is being made. */
static int64_t count_of_host(nlink_t links) { return (int64_t)links - (int64_t)onstack_own_count_expected(); }

static int count_corrected(const count_question *asked) {
  const struct onstack_timespec pause = {0, COUNT_PAUSE_NS};
  uint32_t never = 0;
  int result = count_ask(asked);
  if (result != 0 || !S_ISDIR(asked->there->st_mode) || !count_is_meant(asked->path) || !onstack_keeper_is_here())
    return result;
  const uint64_t begun = onstack_monotonic_ns(), recently = begun > COUNT_WAIT_NS ? begun - COUNT_WAIT_NS : 0;
  while (count_of_host(asked->there->st_nlink) != COUNT_LINKS_ALONE && onstack_own_changed_since(recently) &&
         onstack_monotonic_ns() < begun + COUNT_WAIT_NS) {
    onstack_sys_futex_wait(&never, 0, &pause);
    if ((result = count_ask(asked)) != 0) return result;
  }
  const int64_t links = count_of_host(asked->there->st_nlink);
  asked->there->st_nlink = (nlink_t)(links > COUNT_LINKS_ALONE ? links : COUNT_LINKS_ALONE);
  return 0;
}

static int count_stat(onstack_next_name name, int version, int directory, const char *path, struct stat *there, int flags) {
  const count_question asked = {name, version, directory, path, there, flags};
  return count_corrected(&asked);
}

ONSTACK_PRELOAD_API int fstatat(int directory, const char *path, struct stat *there, int flags) {
  return count_stat(ONSTACK_NEXT_FSTATAT, 0, directory, path, there, flags);
}

/* Other names of the same where both structures are 64 bits wide. Their C names are macros in some libcs. */
ONSTACK_PRELOAD_API int count_fstatat64(int directory, const char *path, struct stat *there, int flags) __asm__("fstatat64");
int count_fstatat64(int directory, const char *path, struct stat *there, int flags) {
  return count_stat(ONSTACK_NEXT_FSTATAT, 0, directory, path, there, flags);
}

ONSTACK_PRELOAD_API int __fxstatat(int version, int directory, const char *path, struct stat *there, int flags);
int __fxstatat(int version, int directory, const char *path, struct stat *there, int flags) {
  return count_stat(ONSTACK_NEXT_FXSTATAT, version, directory, path, there, flags);
}

ONSTACK_PRELOAD_API int count_fxstatat64(int version, int directory, const char *path, struct stat *there,
                                         int flags) __asm__("__fxstatat64");
int count_fxstatat64(int version, int directory, const char *path, struct stat *there, int flags) {
  return count_stat(ONSTACK_NEXT_FXSTATAT, version, directory, path, there, flags);
}

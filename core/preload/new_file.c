/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef O_TMPFILE /* libc older than Linux 3.11 */
#define O_TMPFILE (020000000 | O_DIRECTORY)
#endif

/* Not "self", which is the first thread: the keeper has a table of its own. */
#define OUTPUT_DESCRIPTOR "/proc/thread-self/fd/%d"
#define OUTPUT_ATTEMPTS 16 /* names left behind by processes that were killed while they wrote */
#define OUTPUT_NUMBERS 1000u

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1u
#endif

static struct timespec new_file_process_began;

void onstack_new_file_process_begins(void) { clock_gettime(CLOCK_REALTIME, &new_file_process_began); }

static int new_file_check(const char *pattern) {
  for (const char *at = pattern; (at = strchr(at, '%')); at += 2)
    if (at[1] != 'p' && at[1] != '%') return -EINVAL;
  return 0;
}

int onstack_new_file_pattern(const char *pattern, char out[ONSTACK_NEW_FILE_NAME]) {
  char directory[ONSTACK_NEW_FILE_NAME] = "";
  size_t used = 0;
  if (new_file_check(pattern) < 0) return -EINVAL;
  if (pattern[0] != '/' && !getcwd(directory, sizeof(directory) - 1)) return -errno;
  if (pattern[0] != '/') strcat(directory, "/");
  for (const char *at = directory; *at; at++) {
    if (used + 3 > ONSTACK_NEW_FILE_NAME) return -ENAMETOOLONG;
    if (*at == '%') out[used++] = '%'; /* the directory's own are no pattern */
    out[used++] = *at;
  }
  if (strlen(pattern) >= ONSTACK_NEW_FILE_NAME - used) return -ENAMETOOLONG;
  strcpy(out + used, pattern);
  return 0;
}

bool onstack_new_file_has_pid(const char *pattern) {
  for (const char *at = pattern; (at = strchr(at, '%')); at += 2) {
    if (at[1] == 'p') return true;
    if (at[1] == 0) break;
  }
  return false;
}

/* A number follows the process id in the file's name alone: directories are as they are. */
static int new_file_name(onstack_new_file *output) {
  char tail[16] = "", again[16] = "";
  size_t used = 0;
  if (output->number >= 0) snprintf(tail, sizeof(tail), ".%d", output->number);
  if (output->last->number > 0) snprintf(again, sizeof(again), "-%u", output->last->number);
  for (const char *at = output->pattern; *at; at++) {
    if (used + 32 + sizeof(tail) > ONSTACK_NEW_FILE_NAME) return -ENAMETOOLONG;
    if (at[0] == '%' && at[1] == 'p')
      used += (size_t)snprintf(output->name + used, 32, "%d%s", (int)getpid(), strchr(at, '/') ? "" : again);
    else
      output->name[used++] = *at;
    if (*at == '%' && at[1] != 0) at++;
  }
  strcpy(output->name + used, tail);
  return 0;
}

static bool new_file_is_later(const struct timespec *time, const struct timespec *than) {
  return time->tv_sec > than->tv_sec || (time->tv_sec == than->tv_sec && time->tv_nsec > than->tv_nsec);
}

/* Some file systems of user space give a file another number each time, so its size and time will do as well. */
static bool new_file_is_last(const struct stat *there, const struct stat *last) {
  if (there->st_dev == last->st_dev && there->st_ino == last->st_ino) return true;
  return there->st_size == last->st_size && there->st_mtim.tv_sec == last->st_mtim.tv_sec &&
         there->st_mtim.tv_nsec == last->st_mtim.tv_nsec;
}

/* Another process has this process's id in its name, and has written it since this one began. */
static bool new_file_is_taken(const onstack_new_file *output, const struct stat *there) {
  if (!onstack_new_file_has_pid(strrchr(output->pattern, '/'))) return false;
  return !new_file_is_last(there, &output->last->file) && new_file_is_later(&there->st_mtim, &new_file_process_began);
}

/* "directory/.name.pid-n.tmp" in the same directory, so that the rename stays in one file system. */
static int new_file_name_temporary(onstack_new_file *output, int attempt) {
  const char *base = strrchr(output->name, '/');
  base = base ? base + 1 : output->name;
  int directory = (int)(base - output->name);
  int length = snprintf(output->temporary, sizeof(output->temporary), "%.*s.%.200s.%d-%d.tmp", directory, output->name, base,
                        (int)getpid(), attempt);
  return length < (int)sizeof(output->temporary) ? 0 : -ENAMETOOLONG;
}

/* Linux 6.10, or root: nothing need be looked up in /proc, which a process that looked into its own pays for at its end. */
static bool new_file_links_by_number(const onstack_new_file *output) {
  return linkat(output->file, "", AT_FDCWD, ".", AT_EMPTY_PATH) != 0 && errno == EEXIST;
}

/* A process that is killed while it writes leaves nothing of a file without a name. Such a file gets its name by /proc. */
static bool new_file_open_nameless(onstack_new_file *output) {
  const char *base = strrchr(output->name, '/');
  char directory[ONSTACK_NEW_FILE_NAME];
  snprintf(directory, sizeof(directory), "%.*s", base ? (int)(base - output->name) + 1 : 1, base ? output->name : ".");
  output->temporary[0] = 0;
  output->file = open(directory, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
  if (output->file < 0) return false;
  if (new_file_links_by_number(output)) return true;
  snprintf(directory, sizeof(directory), OUTPUT_DESCRIPTOR, output->file);
  if (access(directory, F_OK) == 0) return true;
  close(output->file);
  return false;
}

static int new_file_give_name(onstack_new_file *output) {
  char from[64];
  if (output->temporary[0]) return 0;
  const bool by_number = new_file_links_by_number(output);
  snprintf(from, sizeof(from), OUTPUT_DESCRIPTOR, output->file);
  for (int attempt = 0; attempt < OUTPUT_ATTEMPTS; attempt++) {
    int result = new_file_name_temporary(output, attempt);
    if (result == 0 && linkat(by_number ? output->file : AT_FDCWD, by_number ? "" : from, AT_FDCWD, output->temporary,
                              by_number ? AT_EMPTY_PATH : AT_SYMLINK_FOLLOW) == 0)
      return 0;
    if (result == 0 && errno == EEXIST) continue;
    output->temporary[0] = 0;
    return result < 0 ? result : -errno;
  }
  output->temporary[0] = 0;
  return -EBUSY;
}

int onstack_new_file_begin(onstack_new_file *output, const char *pattern, int number, onstack_new_file_last *last) {
  struct stat there;
  output->error = 0;
  output->file = -1;
  output->pattern = pattern;
  output->number = number;
  output->last = last;
  output->name[0] = 0;
  const int named = new_file_name(output);
  if (named < 0) return named;
  if (lstat(output->name, &there) == 0 && !S_ISREG(there.st_mode)) return -EEXIST;
  if (new_file_open_nameless(output)) return 0;
  for (int attempt = 0; attempt < OUTPUT_ATTEMPTS; attempt++) {
    int result = new_file_name_temporary(output, attempt);
    if (result < 0) return result;
    output->file = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (output->file >= 0) return 0;
    if (errno != EEXIST) return -errno;
  }
  return -EBUSY;
}

int onstack_new_file_write(void *data, const void *bytes, size_t length) {
  onstack_new_file *output = data;
  const char *from = bytes;
  while (length > 0 && output->error == 0) {
    ssize_t done = write(output->file, from, length);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) output->error = done < 0 ? -errno : -EIO;
    if (done <= 0) break;
    from += done;
    length -= (size_t)done;
  }
  return output->error;
}

/* -EEXIST: another process has written it. */
static int new_file_rename(const onstack_new_file *output) {
  struct stat there;
  const bool is_there = lstat(output->name, &there) == 0;
  if (is_there && new_file_is_taken(output, &there)) return -EEXIST;
#ifdef SYS_renameat2
  /* Another process may write it at this moment. Not every kernel and file system has this call. */
  if (!is_there && syscall(SYS_renameat2, AT_FDCWD, output->temporary, AT_FDCWD, output->name, RENAME_NOREPLACE) == 0)
    return 0;
  if (!is_there && errno == EEXIST && lstat(output->name, &there) == 0 && new_file_is_taken(output, &there)) return -EEXIST;
#endif
  return rename(output->temporary, output->name) == 0 ? 0 : -errno;
}

static int new_file_put(onstack_new_file *output) {
  onstack_new_file_last *last = output->last;
  int result = new_file_rename(output);
  while (result == -EEXIST && last->number < OUTPUT_NUMBERS) {
    last->number++;
    result = new_file_name(output);
    if (result == 0) result = new_file_rename(output);
  }
  if (result == 0 && lstat(output->name, &last->file) != 0) memset(&last->file, 0, sizeof(last->file));
  return result;
}

int onstack_new_file_end(onstack_new_file *output, bool keep) {
  if (keep && output->error == 0) output->error = new_file_give_name(output);
  /* Some file systems (NFS, quotas) tell a write's failure at close. */
  if (close(output->file) != 0 && output->error == 0 && errno != EINTR) output->error = -errno;
  if (keep && output->error == 0) output->error = new_file_put(output);
  if (keep && output->error == 0) return 0;
  if (output->temporary[0]) unlink(output->temporary);
  return output->error;
}

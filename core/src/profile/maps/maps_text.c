/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/maps/maps_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ONSTACK_MAPS_FIRST_BYTES ((size_t)64 * 1024)

static int maps_text_read_all(int descriptor, char **text) {
  size_t capacity = ONSTACK_MAPS_FIRST_BYTES, used = 0;
  char *bytes = malloc(capacity);
  while (bytes) {
    ssize_t got = read(descriptor, bytes + used, capacity - used - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      int error = -errno;
      free(bytes);
      return error;
    }
    used += (size_t)got;
    bytes[used] = '\0';
    if (got == 0) {
      *text = bytes;
      return 0;
    }
    if (capacity - used > capacity / 4) continue;
    char *more = realloc(bytes, capacity * 2);
    if (!more) free(bytes);
    bytes = more;
    capacity *= 2;
  }
  return -ENOMEM;
}

static int maps_text_read_file(const char *path, char **text) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return -errno;
  int error = maps_text_read_all(descriptor, text);
  close(descriptor);
  return error;
}

int onstack_maps_text_read(char **text) {
  *text = NULL;
  int error = maps_text_read_file("/proc/self/maps", text);
  if (error != 0 || (*text)[0] != '\0') return error;
  /* The process seems to have no memory once its first thread has ended by pthread_exit; the others still show it. */
  free(*text);
  *text = NULL;
  return maps_text_read_file("/proc/thread-self/maps", text);
}

/* A number in hexadecimal or decimal, then exactly `after`. */
static bool maps_text_number(char **at, int base, char after, uint64_t *number) {
  char *end;
  *number = strtoull(*at, &end, base);
  if (end == *at || *end != after) return false;
  *at = end + 1;
  return true;
}

static size_t maps_text_unescape(char *path, size_t length) {
  size_t used = 0;
  for (size_t i = 0; i < length; used++) {
    bool escaped = length - i >= 4 && memcmp(path + i, "\\012", 4) == 0;
    path[used] = escaped ? '\n' : path[i];
    i += escaped ? 4 : 1;
  }
  return used;
}

static void maps_text_take_path(onstack_maps_line *line, char *path, size_t length) {
  static const char mark[] = " (deleted)";
  size_t mark_length = sizeof(mark) - 1;
  while (length > 0 && *path == ' ') path++, length--;
  line->deleted = length > mark_length && memcmp(path + length - mark_length, mark, mark_length) == 0;
  if (line->deleted) length -= mark_length;
  line->path = path;
  line->path_length = maps_text_unescape(path, length);
}

/* "55e0-55f0 r-xp 00001000 08:02 1234   /path", `end` is its NUL. */
static bool maps_text_parse(char *at, char *end, onstack_maps_line *line) {
  uint64_t major, minor;
  if (!maps_text_number(&at, 16, '-', &line->start) || !maps_text_number(&at, 16, ' ', &line->limit)) return false;
  if (end - at < 5 || at[4] != ' ') return false;
  line->executable = at[2] == 'x';
  at += 5;
  if (!maps_text_number(&at, 16, ' ', &line->offset) || !maps_text_number(&at, 16, ':', &major) ||
      !maps_text_number(&at, 16, ' ', &minor)) {
    return false;
  }
  line->device = major << 32 | minor;
  char *inode_end;
  line->inode = strtoull(at, &inode_end, 10);
  if (inode_end == at || line->start >= line->limit) return false;
  maps_text_take_path(line, inode_end, (size_t)(end - inode_end));
  return true;
}

bool onstack_maps_text_next(char **text, onstack_maps_line *line) {
  while (**text != '\0') {
    char *start = *text;
    char *end = strchr(start, '\n');
    bool last = !end;
    if (last) end = start + strlen(start);
    *text = last ? end : end + 1;
    *end = '\0';
    if (maps_text_parse(start, end, line)) return true;
  }
  return false;
}

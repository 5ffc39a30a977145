/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/unwind/memory_map.h"

#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>

/* "low-high rwxp offset major:minor inode path" */
typedef struct map_parser {
  char line[512];
  uint32_t length;
  void (*visit)(void *data, const onstack_mapping *mapping);
  void *data;
} map_parser;

static bool map_parse_hex(const char **at, uint64_t *out) {
  uint64_t value = 0;
  const char *begin = *at;
  for (;; (*at)++) {
    char c = **at;
    if (c >= '0' && c <= '9')
      value = value << 4 | (uint64_t)(c - '0');
    else if (c >= 'a' && c <= 'f')
      value = value << 4 | (uint64_t)(c - 'a' + 10);
    else
      break;
  }
  *out = value;
  return *at != begin && *at - begin <= 16;
}

static bool map_skip_field(const char **at) {
  while (**at && **at != ' ') (*at)++;
  while (**at == ' ') (*at)++;
  return **at != 0;
}

static void map_parse_line(map_parser *parser) {
  onstack_mapping mapping;
  const char *at = parser->line;
  parser->line[parser->length] = 0;
  if (!map_parse_hex(&at, &mapping.low) || *at++ != '-' || !map_parse_hex(&at, &mapping.high) || *at++ != ' ') return;
  for (uint32_t i = 0; i < 4; i++)
    if (!at[i]) return;
  mapping.readable = at[0] == 'r';
  mapping.writable = at[1] == 'w';
  mapping.executable = at[2] == 'x';
  mapping.shared = at[3] == 's';
  if (!map_skip_field(&at) || !map_parse_hex(&at, &mapping.offset)) return;
  if (!map_skip_field(&at) || !map_skip_field(&at)) return; /* now at the inode */
  mapping.anonymous = at[0] == '0' && (at[1] == ' ' || at[1] == 0);
  mapping.path = map_skip_field(&at) ? at : "";
  parser->visit(parser->data, &mapping);
}

/* Returns the bytes read, or -errno. */
static long map_read(const char *path, map_parser *parser) {
  char buffer[4096];
  long file = onstack_sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0), got, total = 0;
  if (file < 0) return file;
  for (;;) {
    got = onstack_sys_call3(SYS_read, file, (long)buffer, sizeof(buffer));
    if (got == -EINTR) continue;
    if (got <= 0) break;
    total += got;
    for (long i = 0; i < got; i++) {
      if (buffer[i] == '\n') {
        map_parse_line(parser);
        parser->length = 0;
      } else if (parser->length < sizeof(parser->line) - 1) {
        parser->line[parser->length++] = buffer[i];
      }
    }
  }
  onstack_sys_call1(SYS_close, file);
  return got < 0 ? got : total;
}

int onstack_memory_map_each(void (*visit)(void *data, const onstack_mapping *mapping), void *data) {
  map_parser parser = {.length = 0, .visit = visit, .data = data};
  long got = map_read("/proc/self/maps", &parser);
  /* The process seems to have no memory once its first thread has ended by pthread_exit; the others still show it. */
  if (got == 0) got = map_read("/proc/thread-self/maps", &parser);
  return got < 0 ? (int)got : 0;
}

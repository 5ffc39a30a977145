/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names and lines of generated code as compilers at run time dump them for perf: jit-PID.dump, a file of records (Linux,
 * tools/perf/Documentation/jitdump-specification.txt) that its writer keeps mapped, so that it can be found. wasmtime with
 * ProfilingStrategy::JitDump, node --perf-prof, LLVM's perf listener, Java's libperf-jvmti and others do.
 *
 * Of records that hold an address the last one counts that was made before the address' last sample: code that is gone since
 * keeps its name. Where another function lay there between its samples, the address is counted as replaced. Only a file that
 * is ours is read.
 */
#include "platform/process.h"
#include "profile/elf/symbol_table.h"
#include "profile/generated/generated.h"
#include "profile/store/store.h"
#include "profile/store/stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* When the addresses of a report were sampled, for sources of names that have times. One thread, one report; no lock. */

/* From the first sample of an address to the last. */
typedef struct onstack_generated_span {
  uint64_t first_ns, last_ns; /* monotonic; 0, UINT64_MAX: not known */
} onstack_generated_span;

/* Of all addresses of the table, by number, as the stacks tell; the caller's to free. NULL: no memory. */
static onstack_generated_span *generated_spans(const onstack_symbol_table *table, const onstack_name_context *context) {
  onstack_generated_span *spans = malloc((table->count + 1) * sizeof(*spans));
  if (!spans) return NULL;
  for (size_t i = 0; i < table->count; i++) spans[i] = (onstack_generated_span){UINT64_MAX, 0};
  for (size_t i = 0; i < context->stack_count; i++) {
    const onstack_profile_stack *stack = &context->stacks[i];
    for (uint32_t frame = 0; frame < stack->frame_count; frame++) {
      onstack_generated_span *span = &spans[context->numbers[stack->frames[frame]]];
      if (stack->first_ns < span->first_ns) span->first_ns = stack->first_ns;
      if (stack->last_ns > span->last_ns) span->last_ns = stack->last_ns;
    }
  }
  for (size_t i = 0; i < table->count; i++)
    if (spans[i].last_ns == 0) spans[i] = (onstack_generated_span){0, UINT64_MAX};
  return spans;
}

#define JITDUMP_MAGIC 0x4a695444u /* of a writer with our byte order */
#define JITDUMP_WINDOW ((size_t)64 * 1024)
#define JITDUMP_FILES 8u                          /* mapped by one process; later ones are not read */
#define JITDUMP_LINES_MOST ((uint64_t)256 * 1024) /* bytes that are read of one function's lines */
#define JITDUMP_SAME_FILE "\xff"                  /* the name of the line before it */
/* V8 counts a function's lines from the ELF header that perf will put in front of its code. */
#define JITDUMP_V8_SHIFT 64u
#define JITDUMP_TICKS ((uint64_t)1) /* flag of the header: times are the processor's, and not those of CLOCK_MONOTONIC */

enum { jitdump_load = 0, jitdump_move = 1, jitdump_lines = 2 };

typedef struct jitdump_header {
  uint32_t magic, version, bytes, machine, padding, pid;
  uint64_t time, flags;
} jitdump_header;

typedef struct jitdump_record {
  uint32_t kind, bytes;
  uint64_t time;
} jitdump_record;

typedef struct jitdump_load_record {
  uint32_t pid, tid;
  uint64_t vma, address, bytes, index;
} jitdump_load_record;

typedef struct jitdump_move_record {
  uint32_t pid, tid;
  uint64_t vma, from, to, bytes, index;
} jitdump_move_record;

typedef struct jitdump_lines_record {
  uint64_t address, count;
} jitdump_lines_record;

/* A place in the source; its file's name follows. */
typedef struct jitdump_line {
  uint64_t address;
  uint32_t line, discriminator;
} jitdump_line;

typedef struct jitdump_item {
  uint64_t address; /* as the process has it */
  uint32_t number;
  onstack_generated_span span;
  uint64_t what;   /* tells the function from others; 0: no record yet */
  bool early;      /* it lay there before the last sample */
  bool replaced;   /* another one lay there, after the first sample */
  bool moved;      /* it came from elsewhere, and the record of its index is not found yet */
  uint64_t index;  /* of what was moved */
  uint64_t within; /* the function */
  uint64_t load;   /* where the record of its function begins in the file; 0: not known */
  uint64_t lines;  /* the same of its lines; 0: none */
} jitdump_item;

typedef struct jitdump {
  int file;
  uint64_t size;
  bool timed; /* by our clock */
  char *window;
  uint64_t window_at;
  size_t window_bytes;
  jitdump_item *items; /* sorted by address */
  size_t count;
  jitdump_item **moved; /* sorted by index */
  size_t moved_count;
} jitdump;

static bool jitdump_fill(jitdump *dump, uint64_t offset) {
  ssize_t got;
  do got = pread(dump->file, dump->window, JITDUMP_WINDOW, (off_t)offset);
  while (got < 0 && errno == EINTR);
  dump->window_at = offset;
  dump->window_bytes = got > 0 ? (size_t)got : 0;
  return got > 0;
}

/* Copies at most a window; false: not all of them are there. */
static bool jitdump_read(jitdump *dump, uint64_t offset, void *bytes, size_t length) {
  if (offset > dump->size || length > dump->size - offset) return false;
  bool there = offset >= dump->window_at && offset - dump->window_at <= dump->window_bytes &&
               length <= dump->window_bytes - (size_t)(offset - dump->window_at);
  if (!there && (!jitdump_fill(dump, offset) || length > dump->window_bytes)) return false;
  memcpy(bytes, dump->window + (offset - dump->window_at), length);
  return true;
}

/* The records before the end, of which the last may be half written, or of a full disk. */
static bool jitdump_next(jitdump *dump, uint64_t *at, jitdump_record *record) {
  if (!jitdump_read(dump, *at, record, sizeof(*record))) return false;
  if (record->bytes < sizeof(*record) || record->bytes > dump->size - *at) return false;
  *at += record->bytes;
  return true;
}

static bool jitdump_begin(jitdump *dump, uint64_t *at) {
  jitdump_header header;
  if (!jitdump_read(dump, 0, &header, sizeof(header)) || header.magic != JITDUMP_MAGIC || header.version != 1) return false;
  *at = header.bytes;
  dump->timed = !(header.flags & JITDUMP_TICKS) && header.time <= onstack_monotonic_ns();
  return header.bytes >= sizeof(header);
}

/* What a record has behind its head; false: it is too short for that. */
static bool jitdump_body(jitdump *dump, uint64_t record_at, const jitdump_record *record, void *body, size_t bytes) {
  return record->bytes - sizeof(*record) >= bytes && jitdump_read(dump, record_at + sizeof(*record), body, bytes);
}

static jitdump_item *jitdump_first(const jitdump *dump, uint64_t address) {
  return dump->items + onstack_generated_first(dump->items, sizeof(*dump->items), dump->count, address);
}

/* A text with its NUL that ends before `end`; a longer one than there is room for is cut. Returns the bytes that it takes in
   the file; 0: it has no end. */
static uint64_t jitdump_text(jitdump *dump, uint64_t at, uint64_t end, char *text, size_t room) {
  for (uint64_t length = 0; at + length < end; length++) {
    char next;
    if (!jitdump_read(dump, at + length, &next, 1)) return 0;
    if (length < room - 1) text[length] = next;
    if (next != '\0') continue;
    text[length < room - 1 ? length : room - 1] = '\0';
    return length + 1;
  }
  return 0;
}

/* What tells a function that was loaded from others: its name. */
static uint64_t jitdump_what(jitdump *dump, uint64_t at, const jitdump_record *record) {
  char name[ONSTACK_GENERATED_NAME];
  const uint64_t name_at = at + sizeof(*record) + sizeof(jitdump_load_record);
  if (jitdump_text(dump, name_at, at + record->bytes, name, sizeof(name)) == 0) name[0] = '\0';
  return onstack_profile_hash_bytes(0, name, strlen(name)) | 1;
}

/* Whether a record is the item's from here on: it is the last one before the last sample, or, if all are later, the first. */
static bool jitdump_accept(const jitdump *dump, jitdump_item *item, const jitdump_record *record, uint64_t what) {
  const uint64_t time = dump->timed ? record->time : UINT64_MAX;
  const bool early = !dump->timed || time <= item->span.last_ns;
  if (item->what != 0 && !early) return false;
  if (item->early && item->what != what && time > item->span.first_ns) item->replaced = true;
  item->what = what;
  item->early = early;
  return true;
}

static void jitdump_take_load(jitdump *dump, const jitdump_record *record, const jitdump_load_record *load, uint64_t at,
                              uint64_t lines) {
  const jitdump_item *end = dump->items + dump->count;
  uint64_t what = 0;
  for (jitdump_item *item = jitdump_first(dump, load->address); item < end; item++) {
    if (item->address - load->address >= load->bytes) return;
    if (what == 0) what = jitdump_what(dump, at, record);
    if (!jitdump_accept(dump, item, record, what)) continue;
    item->moved = false;
    item->within = item->address - load->address;
    item->load = at;
    item->lines = lines;
  }
}

static void jitdump_take_move(jitdump *dump, const jitdump_record *record, const jitdump_move_record *move) {
  const jitdump_item *end = dump->items + dump->count;
  for (jitdump_item *item = jitdump_first(dump, move->to); item < end; item++) {
    if (item->address - move->to >= move->bytes) return;
    if (!jitdump_accept(dump, item, record, onstack_profile_hash_word(1, move->index) | 1)) continue;
    item->moved = true;
    item->index = move->index;
    item->within = item->address - move->to;
    item->load = item->lines = 0;
  }
}

static void jitdump_take_moved(jitdump *dump, const jitdump_load_record *load, uint64_t at, uint64_t lines) {
  size_t low = 0, high = dump->moved_count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (dump->moved[middle]->index < load->index)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < dump->moved_count && dump->moved[low]->index == load->index; low++) {
    dump->moved[low]->load = at;
    dump->moved[low]->lines = lines;
  }
}

/* Once past all records: of those that hold an address the one that counts stays, or, for what was moved, the last of its
   index. */
static void jitdump_scan(jitdump *dump, bool for_moved) {
  uint64_t next, lines = 0, lines_of = 0;
  jitdump_record record;
  if (!jitdump_begin(dump, &next)) return;
  for (uint64_t at = next; jitdump_next(dump, &next, &record); at = next) {
    jitdump_load_record load;
    jitdump_move_record move;
    jitdump_lines_record of;
    if (record.kind == jitdump_lines && jitdump_body(dump, at, &record, &of, sizeof(of))) {
      lines = at;
      lines_of = of.address;
    } else if (record.kind == jitdump_load && jitdump_body(dump, at, &record, &load, sizeof(load))) {
      if (lines_of != load.address) lines = 0;
      if (for_moved)
        jitdump_take_moved(dump, &load, at, lines);
      else
        jitdump_take_load(dump, &record, &load, at, lines);
      lines = 0;
    } else if (record.kind == jitdump_move && !for_moved && jitdump_body(dump, at, &record, &move, sizeof(move)))
      jitdump_take_move(dump, &record, &move);
  }
}

static int jitdump_compare_index(const void *a, const void *b) {
  const jitdump_item *const *left = a, *const *right = b;
  return (*left)->index < (*right)->index ? -1 : (*left)->index > (*right)->index;
}

static int jitdump_find(jitdump *dump) {
  jitdump_scan(dump, false);
  dump->moved = malloc((dump->count + 1) * sizeof(*dump->moved));
  if (!dump->moved) return -ENOMEM;
  for (size_t i = 0; i < dump->count; i++)
    if (dump->items[i].moved) dump->moved[dump->moved_count++] = &dump->items[i];
  qsort(dump->moved, dump->moved_count, sizeof(*dump->moved), jitdump_compare_index);
  if (dump->moved_count > 0) jitdump_scan(dump, true);
  return 0;
}

static bool jitdump_is_path(const char *text) {
  while ((unsigned char)*text >= ' ') text++;
  return *text == '\0';
}

/*
 * The place in the source of a function of `bytes` that begins nearest before the address; the file's name into `file`.
 * Lines that lie outside of the function say that all are wrong, as those of V8's baseline compiler are.
 */
static void jitdump_find_line(jitdump *dump, const jitdump_item *item, uint64_t shift, uint64_t bytes,
                              char file[ONSTACK_GENERATED_NAME], onstack_symbol_line *line) {
  jitdump_record record;
  jitdump_lines_record of;
  jitdump_line entry;
  uint64_t at = item->lines, name_at = 0, best = 0, best_name = 0;
  uint32_t best_line = 0;
  if (!jitdump_next(dump, &at, &record) || !jitdump_body(dump, item->lines, &record, &of, sizeof(of))) return;
  const uint64_t end = item->lines + (record.bytes < JITDUMP_LINES_MOST ? record.bytes : JITDUMP_LINES_MOST);
  at = item->lines + sizeof(record) + sizeof(of);
  for (uint64_t i = 0; i < of.count && end - at > sizeof(entry); i++) {
    char head[3];
    if (!jitdump_read(dump, at, &entry, sizeof(entry))) break;
    const uint64_t taken = jitdump_text(dump, at + sizeof(entry), end, head, sizeof(head));
    if (taken == 0) break;
    if (strcmp(head, JITDUMP_SAME_FILE) != 0) name_at = at + sizeof(entry);
    at += sizeof(entry) + taken;
    const uint64_t within = entry.address - of.address - shift;
    if (within > bytes) return;
    if (within > item->within || (best_name != 0 && within < best)) continue;
    best = within;
    best_name = name_at;
    best_line = entry.line;
  }
  if (best_name == 0 || jitdump_text(dump, best_name, end, file, ONSTACK_GENERATED_NAME) <= 1 || !jitdump_is_path(file))
    return;
  line->file = file;
  line->line = best_line;
}

static int jitdump_give(jitdump *dump, onstack_symbol_table *table) {
  char name[ONSTACK_GENERATED_NAME], file[ONSTACK_GENERATED_NAME];
  int error = 0;
  for (size_t i = 0; error == 0 && i < dump->count; i++) {
    const jitdump_item *item = &dump->items[i];
    jitdump_record record;
    jitdump_load_record load;
    uint64_t end = item->load;
    if (item->load == 0 || !jitdump_next(dump, &end, &record) ||
        !jitdump_body(dump, item->load, &record, &load, sizeof(load)))
      continue;
    if (jitdump_text(dump, item->load + sizeof(record) + sizeof(load), end, name, sizeof(name)) <= 1) continue;
    onstack_symbol_line line = {.name = name};
    const char *engine = onstack_generated_engine(name);
    const uint64_t shift = engine && strcmp(engine, "V8") == 0 ? JITDUMP_V8_SHIFT : 0;
    if (item->lines != 0) jitdump_find_line(dump, item, shift, load.bytes, file, &line);
    error = onstack_generated_name(table, item->number, &line);
    table->replaced += item->replaced;
  }
  return error;
}

/* In the file that is open. */
static int jitdump_name(int file, uint64_t size, onstack_symbol_table *table, const onstack_name_context *context) {
  jitdump dump = {.file = file, .size = size};
  onstack_generated_item *items;
  int error = onstack_generated_collect(table, context->maps, &items, &dump.count);
  if (error != 0) return error;
  onstack_generated_span *spans = generated_spans(table, context);
  dump.items = calloc(dump.count + 1, sizeof(*dump.items));
  dump.window = malloc(JITDUMP_WINDOW);
  for (size_t i = 0; dump.items && spans && i < dump.count; i++) {
    dump.items[i].address = items[i].address;
    dump.items[i].number = items[i].number;
    dump.items[i].span = spans[items[i].number];
  }
  error = !dump.items || !spans || !dump.window ? -ENOMEM : dump.count > 0 ? jitdump_find(&dump) : 0;
  if (error == 0) error = jitdump_give(&dump, table);
  free(items);
  free(spans);
  free(dump.items);
  free(dump.window);
  free(dump.moved);
  return error;
}

/* jit-NUMBER.dump; the number is that of the parent in the child of a fork, which has its parent's code as well. */
static bool jitdump_is_name(const char *name) {
  if (strncmp(name, "jit-", 4) != 0) return false;
  const size_t digits = strspn(name + 4, "0123456789");
  return digits > 0 && strcmp(name + 4 + digits, ".dump") == 0;
}

/* The file must be ours, since who may write to its directory can put another in its place. -1: there is none. */
static int jitdump_open(const onstack_profile_mapping *mapping, uint64_t *size) {
  struct stat status;
  if (mapping->deleted || mapping->retired || !onstack_profile_mapping_is_file(mapping) ||
      !jitdump_is_name(onstack_profile_mapping_base_name(mapping)))
    return -1;
  const int file = open(mapping->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
  if (file < 0) return -1;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() && status.st_size > 0) {
    *size = (uint64_t)status.st_size;
    return file;
  }
  close(file);
  return -1;
}

static int jitdump_read_and_give(onstack_symbol_table *table, const onstack_name_context *context) {
  const onstack_profile_maps *maps = context->maps;
  int error = 0;
  uint32_t files = 0;
  for (size_t i = 0; error == 0 && i < maps->count && files < JITDUMP_FILES; i++) {
    uint64_t size;
    const int file = jitdump_open(&maps->items[i], &size);
    if (file < 0) continue;
    files++;
    error = jitdump_name(file, size, table, context);
    close(file);
  }
  return error;
}

ONSTACK_INTERNAL_DEFINE const onstack_name_source onstack_name_source_jitdump = {jitdump_read_and_give};

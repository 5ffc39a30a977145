/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names of generated code: from jitdump files and perf maps. */
#include "support.h"
#include "test_profile_support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CODE_BYTES 65536

static uint64_t code_new(void) {
  void *code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(code, MAP_FAILED);
  return (uint64_t)(uintptr_t)code;
}

/* What a profile with one sample of one frame says of its address. */
typedef struct told {
  char name[256], file[256], mapping[256], comment[256];
  int64_t line;
} told;

static told ask(uint64_t address) {
  onstack_profile *profile = profile_of(NULL);
  told it = {.line = 0};
  feed(profile, &address, 1);
  decoded *out = write_and_decode(profile, NULL);
  const d_location *location = d_find_location(out, out->samples[0].locations[0]);
  const d_function *function = d_find_function(out, location->lines[0].function);
  snprintf(it.name, sizeof(it.name), "%s", d_text(out, function->name));
  snprintf(it.file, sizeof(it.file), "%s", d_text(out, function->file));
  snprintf(it.mapping, sizeof(it.mapping), "%s", d_text(out, d_find_mapping(out, location->mapping)->file));
  it.line = location->lines[0].line;
  if (out->comment_count > 0) snprintf(it.comment, sizeof(it.comment), "%s", d_text(out, out->comments[0]));
  decoded_free(out);
  onstack_profile_free(profile);
  return it;
}

#define check_name(address, expected)                                                                                       \
  do {                                                                                                                      \
    const told ask_it = ask(address);                                                                                       \
    cr_assert_str_eq(ask_it.name, expected, "%s", ask_it.name);                                                             \
  } while (0)

#define check_no_name(address)                                                                                              \
  do {                                                                                                                      \
    char number[32];                                                                                                        \
    snprintf(number, sizeof(number), "0x%lx", (unsigned long)(address));                                                    \
    check_name(address, number);                                                                                            \
  } while (0)

/* ---- jitdump ---- */

typedef struct dump {
  char directory[64], path[128];
  int file;
} dump;

static void put(int file, const void *bytes, size_t length) { cr_assert_eq(write(file, bytes, length), (ssize_t)length); }

static uint64_t record_time = 1; /* of those that follow */

static void put_record(int file, uint32_t kind, const void *body, size_t body_bytes, const void *rest, size_t rest_bytes) {
  struct {
    uint32_t kind, bytes;
    uint64_t time;
  } head = {kind, (uint32_t)(16 + body_bytes + rest_bytes), record_time};
  put(file, &head, sizeof(head));
  put(file, body, body_bytes);
  put(file, rest, rest_bytes);
}

/* With a few bytes of "code" behind the name. */
static void put_load(int file, uint64_t address, uint64_t bytes, uint64_t index, const char *name) {
  const struct {
    uint32_t pid, tid;
    uint64_t vma, address, bytes, index;
  } body = {1, 2, address, address, bytes, index};
  char rest[256] = {0};
  const size_t length = strlen(name) + 1;
  memcpy(rest, name, length);
  put_record(file, 0, &body, sizeof(body), rest, length + 7);
}

static void put_move(int file, uint64_t from, uint64_t to, uint64_t bytes, uint64_t index) {
  const struct {
    uint32_t pid, tid;
    uint64_t vma, from, to, bytes, index;
  } body = {1, 2, to, from, to, bytes, index};
  put_record(file, 1, &body, sizeof(body), "", 0);
}

typedef struct place {
  uint64_t at;
  int line;
  const char *file;
} place;

static void put_lines(int file, uint64_t address, uint64_t shift, const place *places, uint64_t count) {
  uint64_t body[] = {address, count};
  char rest[1024];
  size_t used = 0;
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t at = address + shift + places[i].at;
    const int numbers[] = {places[i].line, 0};
    memcpy(rest + used, &at, 8);
    memcpy(rest + used + 8, numbers, 8);
    strcpy(rest + used + 16, places[i].file);
    used += 17 + strlen(places[i].file);
  }
  put_record(file, 2, body, sizeof(body), rest, used);
}

/* Mapped, as its writer keeps it; `flags` and time as its header has them. */
static dump dump_of(const char *name, uint64_t time, uint64_t flags) {
  dump it;
  strcpy(it.directory, "/tmp/onstack-jitdump-XXXXXX");
  cr_assert_not_null(mkdtemp(it.directory));
  snprintf(it.path, sizeof(it.path), "%s/%s", it.directory, name);
  it.file = open(it.path, O_RDWR | O_CREAT | O_EXCL, 0600);
  cr_assert_geq(it.file, 0);
  const struct {
    uint32_t magic, version, bytes, machine, padding, pid;
    uint64_t time, flags;
  } header = {0x4a695444, 1, 40, 62, 0, (uint32_t)getpid(), time, flags};
  put(it.file, &header, sizeof(header));
  cr_assert_neq(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, it.file, 0), MAP_FAILED);
  return it;
}

static dump dump_new(const char *name) { return dump_of(name, 1, 0); }

static void dump_end(dump *it) {
  unlink(it->path);
  rmdir(it->directory);
  close(it->file);
}

Test(generated_names, those_of_a_jitdump_by_the_newest_record) {
  const uint64_t code = code_new();
  dump it = dump_new("jit-7.dump");
  put_load(it.file, code, 0x40, 1, "wasm[0]::function[1]::first");
  put_load(it.file, code + 0x20, 0x10, 2, "second");
  put_record(it.file, 77, "unknown", 7, "", 0);
  put_load(it.file, code + 0x80, 0x10, 3, "replaced");
  put_load(it.file, code + 0x80, 0x10, 4, "newest");
  put_record(it.file, 3, "", 0, "", 0); /* close */
  check_name(code, "wasm[0]::function[1]::first");
  check_name(code + 0x3f, "wasm[0]::function[1]::first");
  check_name(code + 0x20, "second");
  check_name(code + 0x30, "wasm[0]::function[1]::first");
  check_name(code + 0x8f, "newest");
  check_no_name(code + 0x90);
  const told first = ask(code), second = ask(code + 0x20);
  cr_assert_str_eq(first.mapping, "[generated: wasmtime]");
  cr_assert_str_eq(second.mapping, "//anon");
  dump_end(&it);
}

static void feed_at(onstack_profile *profile, uint64_t address, uint64_t time_ns) {
  onstack_sample sample = sample_of(&address, 1);
  sample.time_ns = time_ns;
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
}

/* Samples of one address from `first` to `last`. */
static void check_between(uint64_t address, uint64_t first, uint64_t last, const char *name, int replaced) {
  onstack_profile *profile = profile_of(NULL);
  feed_at(profile, address, last);
  feed_at(profile, address, first);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_str_eq(d_stack(out, 0), name, "from %d to %d: %s", (int)first, (int)last, d_stack(out, 0));
  cr_assert_eq(out->comment_count, (size_t)(replaced > 0));
  char comment[64];
  snprintf(comment, sizeof(comment), "onstack.generated replaced=%d", replaced);
  if (replaced > 0) cr_assert_str_eq(d_text(out, out->comments[0]), comment);
  decoded_free(out);
  onstack_profile_free(profile);
}

/* An address is used by one function after the other. */
static void put_successors(int file, uint64_t code) {
  static const char *const names[] = {"first", "second", "third", "third"};
  for (uint64_t i = 0; i < 4; i++) {
    record_time = 1000 * (i + 1);
    put_load(file, code, 0x40, i + 1, names[i]);
  }
  put_load(file, code + 0x100, 0x40, 5, "moves");
  record_time = 5000;
  put_move(file, code + 0x100, code, 0x40, 5);
}

Test(generated_names, code_has_the_name_that_held_when_it_was_sampled) {
  const uint64_t code = code_new();
  dump it = dump_new("jit-7.dump");
  put_successors(it.file, code);
  check_between(code, 1000, 1999, "first", 0);
  check_between(code, 10, 999, "first", 0); /* its record came later */
  check_between(code, 2000, 2999, "second", 0);
  check_between(code, 3000, 4999, "third", 0); /* again, under its own name */
  check_between(code, 5000, 9000, "moves", 0);
  check_between(code + 0x100, 1000, 9000, "moves", 0);
  dump_end(&it);
}

Test(generated_names, code_that_was_replaced_between_samples_is_counted) {
  const uint64_t code = code_new();
  dump it = dump_new("jit-7.dump");
  put_successors(it.file, code);
  check_between(code, 1999, 2000, "second", 1);
  check_between(code, 500, 2000, "second", 1);
  check_between(code, 1500, 4000, "third", 1); /* one address */
  check_between(code, 4500, 5000, "moves", 1);
  dump_end(&it);
}

/* Processor's ticks, as the header's flag says, or a clock that is ahead of ours: the newest counts. */
Test(generated_names, times_of_another_clock_do_not_count) {
  const uint64_t code = code_new();
  const uint64_t now = (uint64_t)(t_now() * 1e9);
  dump it[] = {dump_of("jit-7.dump", 1, 1), dump_of("jit-8.dump", now * 2, 0)};
  put_successors(it[0].file, code);
  for (uint64_t i = 0; i < 2; i++) {
    record_time = now * 2 + i;
    put_load(it[1].file, code + 0x200, 0x40, i + 1, i == 0 ? "old" : "new");
  }
  check_between(code, 1000, 1999, "moves", 1);
  check_between(code + 0x200, 1000, 1999, "new", 1);
  for (int i = 0; i < 2; i++) dump_end(&it[i]);
}

Test(generated_names, what_a_perf_map_has_two_names_for_is_counted) {
  const uint64_t code = code_new();
  char path[64];
  snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  const unsigned long at = (unsigned long)code;
  fprintf(file, "%lx 20 old\n%lx 20 same\n%lx 20 same\n%lx 20 new\n", at, at + 0x20, at + 0x20, at);
  fclose(file);
  check_between(code, 1000, 1999, "new", 1);
  check_between(code + 0x20, 1000, 1999, "same", 0);
  unlink(path);
}

/* An hour older than this process: left by an earlier one with the same id, or written by this one before its clock was set
   forward. Only in the latter case can the process have the file open. */
Test(generated_names, a_perf_map_that_is_older_than_the_process_counts_while_it_is_open) {
  const uint64_t code = code_new();
  char path[64];
  snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  fprintf(file, "%lx 20 compiled\n", (unsigned long)code);
  fflush(file);
  const struct timespec times[2] = {{time(NULL) - 3600, 0}, {time(NULL) - 3600, 0}};
  cr_assert_eq(futimens(fileno(file), times), 0);
  check_name(code, "compiled");
  fclose(file);
  check_no_name(code);
  unlink(path);
}

/* As wazero writes them; what only resembles these stays as it is. */
Test(generated_names, blocks_of_a_function_have_its_name) {
  static const char *const names[][2] = {{"[1/12].main.work:::::L3", "main.work"},
                                         {"[11/12].main.(*T[int]).run:::::L0", "main.(*T[int]).run"},
                                         {"[1/12].main.work", "[1/12].main.work"},
                                         {"[1/].x:::::L1", "[1/].x:::::L1"},
                                         {"[/2].x:::::L1", "[/2].x:::::L1"},
                                         {"[1/2]:::::L1", "[1/2]:::::L1"},
                                         {"[1/2].:::::L1", "[1/2].:::::L1"},
                                         {"[1/2].x:::::L1a", "[1/2].x:::::L1a"},
                                         {"[1/2].x:::::L", "[1/2].x:::::L"},
                                         {"[", "["},
                                         {"x:::::L1", "x:::::L1"}};
  const uint64_t code = code_new();
  char path[64];
  snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  for (size_t i = 0; i < ONSTACK_COUNT_OF(names); i++)
    fprintf(file, "%lx 10 %s\n", (unsigned long)code + 16 * i, names[i][0]);
  fclose(file);
  for (size_t i = 0; i < ONSTACK_COUNT_OF(names); i++) check_name(code + 16 * i, names[i][1]);
  unlink(path);
}

Test(generated_names, what_moved_keeps_its_name_at_both_places) {
  const uint64_t code = code_new();
  dump it = dump_new("jit-7.dump");
  put_load(it.file, code, 0x40, 1, "moves");
  put_load(it.file, code + 0x200, 0x40, 2, "overwritten");
  put_move(it.file, code, code + 0x200, 0x40, 1);
  put_move(it.file, code, code + 0x300, 0x40, 99); /* of no record */
  check_name(code + 8, "moves");
  check_name(code + 0x23f, "moves");
  check_no_name(code + 0x300);
  put_load(it.file, code + 0x210, 0x10, 3, "later");
  check_name(code + 0x218, "later");
  dump_end(&it);
}

Test(generated_names, lines_of_a_jitdump) {
  static const place places[] = {{0, 10, "a.c"}, {8, 11, "\xff"}, {16, 3, "b.h"}, {24, 4, "\xff"}};
  const uint64_t code = code_new();
  dump it = dump_new("jit-7.dump");
  put_lines(it.file, code, 0, places, 4);
  put_load(it.file, code, 0x40, 1, "f");
  put_lines(it.file, code + 0x1000, 0, places, 4); /* of something else */
  put_load(it.file, code + 0x100, 0x40, 2, "g");
  put_lines(it.file, code + 0x200, 64, places, 4);
  put_load(it.file, code + 0x200, 0x40, 3, "JS:*h");
  put_move(it.file, code, code + 0x300, 0x40, 1);
  put_lines(it.file, code + 0x400, 0x30, places, 4); /* the last one outside of it */
  put_load(it.file, code + 0x400, 0x40, 4, "wild");
  const struct {
    uint64_t at;
    const char *name, *file;
    int64_t line;
  } expected[] = {{0, "f", "a.c", 10},     {7, "f", "a.c", 10},   {8, "f", "a.c", 11},         {16, "f", "b.h", 3},
                  {63, "f", "b.h", 4},     {0x104, "g", "", 0},   {0x200, "JS:*h", "a.c", 10}, {0x210, "JS:*h", "b.h", 3},
                  {0x309, "f", "a.c", 11}, {0x43f, "wild", "", 0}};
  for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
    const told got = ask(code + expected[i].at);
    cr_assert_str_eq(got.name, expected[i].name);
    cr_assert_str_eq(got.file, expected[i].file, "at %lx: %s", (unsigned long)expected[i].at, got.file);
    cr_assert_eq(got.line, expected[i].line, "at %lx: %ld", (unsigned long)expected[i].at, (long)got.line);
  }
  cr_assert_str_eq(ask(code + 0x200).mapping, "[generated: V8]");
  dump_end(&it);
}

Test(generated_names, a_jitdump_that_is_cut_or_somebody_elses) {
  const uint64_t code = code_new();
  dump it = dump_new("jit-7.dump");
  put_load(it.file, code, 0x40, 1, "whole");
  put_load(it.file, code, 0x40, 2, "half of a name");
  const off_t end = lseek(it.file, 0, SEEK_END);
  for (int cut = 1; cut < 78; cut += 6) {
    cr_assert_eq(ftruncate(it.file, end - cut), 0);
    check_name(code, "whole");
  }
  if (geteuid() == 0) { /* root's tests alone */
    cr_assert_eq(fchown(it.file, 65534, 65534), 0);
    check_no_name(code);
    cr_assert_eq(fchown(it.file, 0, 0), 0);
  }
  cr_assert_eq(pwrite(it.file, "JiTD", 4, 0), 4); /* of the other byte order */
  check_no_name(code);
  dump_end(&it);
}

Test(generated_names, a_mapped_file_of_another_name_is_no_jitdump) {
  const uint64_t code = code_new();
  static const char *const names[] = {"jit-.dump", "jit-7x.dump", "jit-7.dumps", "kit-7.dump"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    dump it = dump_new(names[i]);
    put_load(it.file, code, 0x40, 1, "not this");
    check_no_name(code);
    dump_end(&it);
  }
}

/* Engines that write code at one address and run it at another have it in a file without a name (.NET), or in one that they
   have compiled in advance. */
Test(generated_names, code_in_a_file_that_is_no_program) {
  char page[CODE_BYTES] = "compiled", path[] = "/tmp/onstack-code-XXXXXX";
  dump it = dump_new("jit-7.dump");
  const int files[] = {memfd_create("doublemapper", MFD_CLOEXEC), mkstemp(path)};
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(write(files[i], page, sizeof(page)), (ssize_t)sizeof(page));
    void *mapped = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, files[i], 0);
    cr_assert_neq(mapped, MAP_FAILED);
    const uint64_t code = (uint64_t)(uintptr_t)mapped;
    const char *name = i == 0 ? "memfd:doublemapper+0x40" : strrchr(path, '/') + 1;
    const told before = ask(code + 0x40);
    cr_assert_eq(strncmp(before.name, name, strlen(name)), 0, "%s", before.name);
    put_load(it.file, code, 0x80, 1, "in a file");
    check_name(code + 0x40, "in a file");
  }
  unlink(path);
  dump_end(&it);
}

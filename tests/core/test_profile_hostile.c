/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ELF files that lie: run this under the address sanitizer too, it is then that a wild read shows. */
#include "test_profile_image.h"
#include "test_profile_support.h"

#include "profile/elf/elf_symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int new_file(void) {
  int descriptor = memfd_create("onstack-elf", MFD_CLOEXEC);
  cr_assert_geq(descriptor, 0);
  return descriptor;
}

/* Opens the file behind a descriptor by its link: 20,000 files on a disk take a minute. */
static int open_descriptor(onstack_elf_file *file, int descriptor) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
  return onstack_elf_open_file(file, path);
}

#define QUERIES 9
static void queries_make(onstack_elf_query *queries) {
  static const uint64_t addresses[QUERIES] = {0, 1, 0x2000, 0x2020, 0x2045, 0x27ff, 0x2800, UINT64_MAX / 2, UINT64_MAX};
  memset(queries, 0, QUERIES * sizeof(*queries));
  for (size_t i = 0; i < QUERIES; i++) queries[i].address = addresses[i];
}

/* Everything that we ever do with a file. Returns how many addresses got a name. */
static size_t read_all(int descriptor) {
  onstack_elf_file file;
  if (open_descriptor(&file, descriptor) != 0) return 0;
  onstack_elf_build_id id;
  onstack_elf_read_build_id(&file, &id);
  cr_assert_leq(id.length, ONSTACK_ELF_BUILD_ID_MAX);
  uint64_t difference;
  onstack_elf_code_to_vaddr(&file, 0x1000, 0x1000, &difference);
  onstack_elf_code_to_vaddr(&file, UINT64_MAX, UINT64_MAX, &difference);
  onstack_profile_arena names = {0};
  onstack_elf_query queries[QUERIES];
  size_t named = 0, length = 0;
  queries_make(queries);
  for (int table = 0; table < 2; table++) {
    uint32_t type = table == 0 ? ONSTACK_ELF_SECTION_SYMTAB : ONSTACK_ELF_SECTION_DYNSYM;
    cr_assert_eq(onstack_elf_symbols_find(&file, type, queries, QUERIES, &names), 0);
  }
  for (size_t i = 0; i < QUERIES; i++) {
    named += !!queries[i].name;
    if (queries[i].name) length += strlen(queries[i].name); /* read to its end */
  }
  cr_assert_geq(length, named);
  onstack_profile_arena_release(&names);
  onstack_elf_close(&file);
  return named;
}

static void put(int descriptor, const void *bytes, size_t length) {
  cr_assert_eq(ftruncate(descriptor, 0), 0);
  cr_assert_eq(pwrite(descriptor, bytes, length, 0), (ssize_t)length);
}

Test(profile_hostile, the_file_before_it_is_spoiled) {
  image it = image_make();
  int descriptor = new_file();
  put(descriptor, &it, sizeof(it));
  cr_assert_eq(read_all(descriptor), 3); /* 0x2020, 0x2045, 0x27ff */
  onstack_elf_file file;
  cr_assert_eq(open_descriptor(&file, descriptor), 0);
  onstack_elf_build_id id;
  onstack_elf_read_build_id(&file, &id);
  cr_assert_eq(id.length, 20);
  cr_assert_eq(id.bytes[19], 19);
  uint64_t difference = 0;
  cr_assert(onstack_elf_code_to_vaddr(&file, 0x1000, 0x1000, &difference));
  cr_assert_eq(difference, 0x1000);
  cr_assert_not(onstack_elf_code_to_vaddr(&file, 0x9000, 0x1000, &difference));
  onstack_elf_close(&file);
  close(descriptor);
}

static uint64_t random_state = 88172645463325252u;
static uint64_t random_next(void) { /* xorshift: the same mutations each time */
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

static uint64_t nasty_number(size_t length) {
  const uint64_t numbers[] = {
      0,          1,      2,      UINT64_MAX, UINT64_MAX - 7, UINT64_MAX / 24, (uint64_t)1 << 63, UINT32_MAX,
      0x7fffffff, 0xffff, length, length - 1, length + 1,     length * 2,      random_next(),     random_next() % 4096};
  return numbers[random_next() % (sizeof(numbers) / sizeof(numbers[0]))];
}

/* Where mutations mostly go: the tables. */
typedef struct range {
  size_t start, length;
} range;

/* Changes a few numbers, and now and then cuts the end off. Returns the length. */
static size_t mutate(char *bytes, size_t length, range dense) {
  for (uint64_t changes = 1 + random_next() % 4; changes > 0; changes--) {
    range within = random_next() % 4 != 0 ? dense : (range){0, length};
    size_t width = (size_t)1 << random_next() % 4;
    size_t at = within.start + (random_next() % (within.length - width) & ~(width - 1));
    uint64_t number = nasty_number(length);
    memcpy(bytes + at, &number, width);
  }
  return random_next() % 8 == 0 ? random_next() % length : length;
}

static void mutate_often(const char *good, size_t length, range dense, int rounds) {
  char *bytes = malloc(length);
  int descriptor = new_file();
  for (int round = 0; round < rounds; round++) {
    memcpy(bytes, good, length);
    put(descriptor, bytes, mutate(bytes, length, dense));
    read_all(descriptor);
  }
  close(descriptor);
  free(bytes);
}

Test(profile_hostile, twenty_thousand_mutations) {
  image it = image_make();
  mutate_often((const char *)&it, sizeof(it), (range){0, offsetof(image, rest)}, 20000);
}

static int find_linker(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  if (!strstr(info->dlpi_name, "/ld-")) return 0;
  snprintf(data, 512, "%s", info->dlpi_name);
  return 1;
}

Test(profile_hostile, mutations_of_a_real_file) {
  char path[512] = "";
  if (dl_iterate_phdr(find_linker, path) == 0) cr_skip_test("no dynamic linker in this process");
  FILE *file = fopen(path, "rb");
  cr_assert_not_null(file);
  size_t room = (size_t)1 << 20;
  char *bytes = malloc(room);
  size_t length = fread(bytes, 1, room, file);
  fclose(file);
  onstack_elf_header header;
  memcpy(&header, bytes, sizeof(header));
  range sections = {header.sections_offset, (size_t)header.section_count * sizeof(onstack_elf_section)};
  cr_assert_leq(sections.start + sections.length, length);
  mutate_often(bytes, length, sections, 500);
  free(bytes);
}

Test(profile_hostile, every_truncation) {
  image it = image_make();
  int descriptor = new_file();
  put(descriptor, &it, sizeof(it));
  for (size_t length = sizeof(it); length-- > 0;) {
    cr_assert_eq(ftruncate(descriptor, (off_t)length), 0);
    size_t named = read_all(descriptor);
    cr_assert(length >= offsetof(image, rest) || named == 0, "names out of a table that is cut at %zu", length);
  }
  close(descriptor);
}

Test(profile_hostile, names_without_an_end_do_not_count) {
  image it = image_make();
  memset(it.names, 'n', sizeof(it.names));
  memset(it.rest, 'r', 100); /* what follows is not the table's, and neither is the end there */
  int descriptor = new_file();
  put(descriptor, &it, sizeof(it));
  cr_assert_eq(read_all(descriptor), 0);
  close(descriptor);
}

/* Each of many symbols claims all of memory: must not take symbols x addresses steps. */
Test(profile_hostile, a_table_where_everything_covers_everything, .timeout = 60) {
  enum { symbols = 400000, queries = 20000 };
  image it = image_make();
  it.sections[2].offset = sizeof(it);
  it.sections[2].bytes = (uint64_t)symbols * sizeof(onstack_elf_symbol);
  onstack_elf_symbol *table = calloc(symbols, sizeof(*table));
  for (size_t i = 0; i < symbols; i++) {
    table[i] = (onstack_elf_symbol){.name = 12, .info = 1 << 4 | 2, .section = 1, .value = 0, .size = UINT64_MAX};
  }
  int descriptor = new_file();
  put(descriptor, &it, sizeof(it));
  cr_assert_eq(pwrite(descriptor, table, it.sections[2].bytes, sizeof(it)), (ssize_t)it.sections[2].bytes);
  onstack_elf_query *asked = calloc(queries, sizeof(*asked));
  for (size_t i = 0; i < queries; i++) asked[i].address = i;
  onstack_elf_file file;
  cr_assert_eq(open_descriptor(&file, descriptor), 0);
  onstack_profile_arena names = {0};
  clock_t start = clock();
  cr_assert_eq(onstack_elf_symbols_find(&file, ONSTACK_ELF_SECTION_SYMTAB, asked, queries, &names), 0);
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  cr_assert_lt(seconds, 5.0, "%.1f s", seconds);
  onstack_profile_arena_release(&names);
  onstack_elf_close(&file);
  close(descriptor);
  free(asked);
  free(table);
}

Test(profile_hostile, what_is_no_regular_elf_file_does_not_open, .timeout = 20) {
  onstack_elf_file file;
  char fifo[] = P_tmpdir "/onstack-fifo-XXXXXX";
  cr_assert_eq(onstack_elf_open_file(&file, "/nonexistent/onstack"), -ENOENT);
  cr_assert_eq(onstack_elf_open_file(&file, "/dev/zero"), -ENOEXEC);
  cr_assert_eq(onstack_elf_open_file(&file, "/proc"), -ENOEXEC);
  cr_assert_eq(onstack_elf_open_file(&file, "/proc/self/maps"), -ENOEXEC);
  cr_assert_not_null(mkdtemp(fifo));
  char path[128];
  snprintf(path, sizeof(path), "%s/fifo", fifo);
  cr_assert_eq(mkfifo(path, 0600), 0);
  cr_assert_eq(onstack_elf_open_file(&file, path), -ENOEXEC); /* would wait for a writer */
  unlink(path);
  rmdir(fifo);
}

Test(profile_hostile, a_file_of_another_build_names_nothing) {
  image it = image_make();
  int descriptor = new_file();
  put(descriptor, &it, sizeof(it));
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
  onstack_profile_mapping mapping = {.path = path, .build_id = {.length = 20}};
  memcpy(mapping.build_id.bytes, it.note.content, 20);
  for (int same = 1; same >= 0; same--) {
    onstack_profile_arena names = {0};
    onstack_elf_query query = {.address = 0x2020};
    mapping.build_id.bytes[7] ^= same == 0;
    cr_assert_eq(onstack_elf_module_symbols(&mapping, &query, 1, &names), 0);
    cr_assert_eq(!!query.name, same);
    onstack_profile_arena_release(&names);
  }
  close(descriptor);
}

Test(profile_hostile, a_note_longer_than_its_section_is_no_build_id) {
  image it = image_make();
  it.note.head.content_bytes = ONSTACK_ELF_BUILD_ID_MAX;
  int descriptor = new_file();
  put(descriptor, &it, sizeof(it));
  onstack_elf_file file;
  onstack_elf_build_id id;
  cr_assert_eq(open_descriptor(&file, descriptor), 0);
  onstack_elf_read_build_id(&file, &id);
  cr_assert_eq(id.length, 0);
  onstack_elf_close(&file);
  close(descriptor);
}

Test(profile_hostile, memory_beyond_the_image_is_not_read) {
  image it = image_make();
  onstack_elf_file file;
  uint64_t address = (uint64_t)(uintptr_t)&it;
  cr_assert_eq(onstack_elf_open_memory(&file, address, 63), -ENOEXEC); /* though more can be read there */
  cr_assert_eq(onstack_elf_open_memory(&file, address, offsetof(image, sections) + 64), 0);
  cr_assert_eq(file.segment_count, 3);
  cr_assert_eq(file.section_count, 0);
  onstack_elf_close(&file);
}

Test(profile_hostile, memory_that_is_gone_does_not_fault) {
  onstack_elf_file file;
  cr_assert_eq(onstack_elf_open_memory(&file, 0x10000, 4096), -ENOEXEC);
  cr_assert_eq(onstack_elf_open_memory(&file, UINT64_MAX - 10, 4096), -ENOEXEC);
  image it = image_make();
  cr_assert_eq(onstack_elf_open_memory(&file, (uint64_t)(uintptr_t)&it, sizeof(it)), 0);
  cr_assert_eq(file.section_count, 6);
  onstack_elf_close(&file);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Unwind tables that are kept in files: the same ones come back, and nothing is believed that others could have written or a
   disk has spoiled. */
#include "sampler/modules/rule_table.h"
#include "sampler/modules/table_files.h"
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/onstack-tables-XXXXXX";
static char file_path[512];

/* The one file that is in the directory, or "". */
static const char *find_file(void) {
  DIR *opened = opendir(directory);
  file_path[0] = 0;
  for (struct dirent *entry; (entry = readdir(opened));) {
    if (entry->d_name[0] == '.') continue;
    cr_assert_eq(file_path[0], 0, "one file, nothing beside it: %s", entry->d_name);
    snprintf(file_path, sizeof(file_path), "%s/%s", directory, entry->d_name);
  }
  closedir(opened);
  return file_path;
}

static void tear_down(void) {
  char command[128];
  snprintf(command, sizeof(command), "rm -rf %s", directory);
  if (system(command) != 0) fprintf(stderr, "%s is left\n", directory);
}

static void set_up(void) {
  t_setup();
  cr_assert_not_null(mkdtemp(directory));
  atexit(tear_down);
}

TestSuite(table_files, .init = set_up);

static const onstack_table_key key = {
    .build_id = {4, {0xab, 1, 2, 3}}, .extent = 1 << 20, .section_offset = 77, .section_bytes = 1 << 17};

/* Some table: chunk after chunk with more rows each. */
static onstack_rule_table *some_table(void) {
  enum { CHUNKS = 40, ROWS = 780, RULES = 30 };
  onstack_rule_table *table = onstack_rule_table_map(CHUNKS, ROWS, RULES);
  cr_assert_not_null(table);
  uint32_t *first_row = (uint32_t *)(uintptr_t)table->first_row, row = 0;
  onstack_rule_row *rows = (onstack_rule_row *)(uintptr_t)table->rows;
  onstack_rule *rules = (onstack_rule *)(uintptr_t)table->rules;
  for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
    first_row[chunk] = row;
    for (uint32_t i = 0; i < chunk; i++, row++)
      rows[row] = (onstack_rule_row){(uint16_t)((chunk << ONSTACK_RULE_CHUNK_BITS) + i * 8), (uint16_t)(row % RULES)};
  }
  first_row[CHUNKS] = row;
  cr_assert_eq(row, ROWS);
  for (uint32_t i = 0; i < RULES; i++)
    rules[i] = (onstack_rule){(uint8_t)(i % (ONSTACK_CFA_REGISTER + 1)), 0, ONSTACK_AT_SAME, -1, 0, (int32_t)i * 8};
  return table;
}

static void keep_some(void) {
  onstack_rule_table *table = some_table();
  cr_assert_eq(onstack_table_files_use(directory), 0);
  onstack_table_files_keep(&key, table);
  onstack_rule_table_free(table);
  cr_assert_neq(find_file()[0], 0, "a file");
}

static bool reads(const onstack_table_key *wanted) {
  const onstack_rule_table *table = onstack_table_files_read(wanted);
  onstack_rule_table_free(table);
  return table ? true : false;
}

Test(table_files, what_was_kept_comes_back) {
  onstack_rule_table *made = some_table();
  keep_some();
  const onstack_rule_table *table = onstack_table_files_read(&key);
  cr_assert_not_null(table);
  cr_assert_eq(table->bytes, made->bytes);
  cr_assert_eq(memcmp(table + 1, made + 1, made->bytes - sizeof(*made)), 0);
  for (uint64_t offset = 0; offset < (uint64_t)made->chunk_count << ONSTACK_RULE_CHUNK_BITS; offset += 3) {
    const onstack_rule *one = onstack_rules_lookup(made, offset), *other = onstack_rules_lookup(table, offset);
    cr_assert_eq(!one, !other);
    if (one) cr_assert_eq(one - made->rules, other - table->rules);
  }
  onstack_rule_table_free(table);
  onstack_rule_table_free(made);
  onstack_table_files_counters counters = onstack_table_files_count();
  cr_assert_eq(counters.read, 1);
  cr_assert_eq(counters.kept, 1);
  cr_assert_eq(counters.refused, 0);
  cr_assert_eq(counters.failed, 0);
  cr_assert_eq(onstack_table_files_use(NULL), 0);
  cr_assert(!reads(&key), "not used any more");
}

Test(table_files, of_another_object_there_is_none) {
  keep_some();
  onstack_table_key other = key;
  other.build_id.bytes[2]++;
  cr_assert(!reads(&other));
  cr_assert_eq(onstack_table_files_count().refused, 0, "no file, so nothing to refuse");
  other = key;
  other.section_bytes++; /* one that somebody has edited */
  cr_assert(!reads(&other));
  cr_assert_eq(onstack_table_files_count().refused, 1);
}

Test(table_files, spoiled_files_are_not_believed) {
  keep_some();
  FILE *file = fopen(find_file(), "r+");
  static uint8_t bytes[1 << 16];
  const size_t size = fread(bytes, 1, sizeof(bytes), file);
  cr_assert(size > 1000 && size < sizeof(bytes));
  for (size_t at = 0; at < size; at += at < 128 ? 1 : 17) {
    fseek(file, (long)at, SEEK_SET);
    fputc(bytes[at] ^ (1 << at % 8), file);
    fflush(file);
    cr_assert(!reads(&key), "byte %zu", at);
    fseek(file, (long)at, SEEK_SET);
    fputc(bytes[at], file);
    fflush(file);
  }
  cr_assert(reads(&key), "as it was");
  fseek(file, 0, SEEK_END);
  fputc(0, file);
  fflush(file);
  cr_assert(!reads(&key), "longer");
  for (size_t length = size; length-- > 0; length -= length > 200 ? 100 : 0) {
    cr_assert_eq(ftruncate(fileno(file), (off_t)length), 0);
    cr_assert(!reads(&key), "cut to %zu", length);
  }
  fclose(file);
}

/* With a sum that fits: whoever may write the file can make one. */
Test(table_files, no_look_up_leads_out_of_a_table) {
  onstack_rule_table *table = some_table();
  cr_assert(onstack_rule_table_is_sound(table));
  uint32_t *first_row = (uint32_t *)(uintptr_t)table->first_row;
  onstack_rule_row *rows = (onstack_rule_row *)(uintptr_t)table->rows;
  onstack_rule *rules = (onstack_rule *)(uintptr_t)table->rules;
  first_row[table->chunk_count]++;
  cr_assert(!onstack_rule_table_is_sound(table));
  first_row[table->chunk_count]--;
  first_row[7] = 1000;
  cr_assert(!onstack_rule_table_is_sound(table));
  first_row[7] = first_row[8];
  rows[5].rule = (uint16_t)table->rule_count;
  cr_assert(!onstack_rule_table_is_sound(table));
  rows[5].rule = 0;
  rules[3].cfa = ONSTACK_CFA_REGISTER + 1;
  cr_assert(!onstack_rule_table_is_sound(table));
  rules[3].cfa = 0;
  cr_assert(onstack_rule_table_is_sound(table));
  onstack_rule_table_free(table);
}

Test(table_files, what_others_may_write_is_not_believed) {
  keep_some();
  cr_assert_eq(chmod(find_file(), 0664), 0);
  cr_assert(!reads(&key), "a file of a group");
  cr_assert_eq(chmod(file_path, 0644), 0);
  cr_assert(reads(&key));
  cr_assert_eq(chmod(directory, 01777), 0);
  cr_assert(!reads(&key), "a directory of all");
  cr_assert_eq(onstack_table_files_use(directory), -EACCES);
  cr_assert_eq(chmod(directory, 0755), 0);
  cr_assert(reads(&key));
  if (geteuid() == 0) {
    cr_assert_eq(chown(file_path, 12345, (gid_t)-1), 0);
    cr_assert(!reads(&key), "somebody else's file");
    cr_assert_eq(chown(file_path, 0, (gid_t)-1), 0);
    cr_assert_eq(chown(directory, 12345, (gid_t)-1), 0);
    cr_assert(!reads(&key), "somebody else's directory");
    cr_assert_eq(chown(directory, 0, (gid_t)-1), 0);
  }
  char other[600];
  snprintf(other, sizeof(other), "%s.other", file_path);
  cr_assert_eq(rename(file_path, other), 0);
  cr_assert_eq(symlink(other, file_path), 0);
  cr_assert(!reads(&key), "a symbolic link");
  cr_assert_eq(unlink(file_path), 0);
  cr_assert_eq(mkfifo(file_path, 0600), 0);
  cr_assert(!reads(&key), "a pipe, at which nobody waits");
}

/* write(2) above the limit would send SIGXFSZ, which ends the process. */
Test(table_files, a_limit_of_files_is_no_end) {
  struct rlimit limit = {.rlim_cur = 1024}, before;
  onstack_rule_table *table = some_table();
  cr_assert_gt(table->bytes, 1024);
  cr_assert_eq(onstack_table_files_use(directory), 0);
  cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit.rlim_max = before.rlim_max;
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  onstack_table_files_keep(&key, table);
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
  cr_assert_eq(onstack_table_files_count().failed, 1);
  cr_assert_eq(find_file()[0], 0, "nothing is left");
  onstack_table_files_keep(&key, table);
  cr_assert_eq(onstack_table_files_count().kept, 1);
  cr_assert_neq(find_file()[0], 0);
  onstack_rule_table_free(table);
}

Test(table_files, directories_that_are_none) {
  char path[600];
  cr_assert_eq(onstack_tables_keep_in("/nowhere/at/all"), -ENOENT);
  cr_assert_eq(onstack_tables_keep_in(""), -ENOENT);
  snprintf(path, sizeof(path), "%s/file", directory);
  close(open(path, O_CREAT | O_WRONLY, 0600));
  cr_assert_eq(onstack_tables_keep_in(path), -ENOTDIR);
  cr_assert_eq(onstack_tables_keep_in(NULL), 0);
}

static int put_text(void *data, const void *bytes, size_t size) {
  char *text = data;
  const size_t used = strlen(text);
  memcpy(text + used, bytes, size < 8000 - used ? size : 0);
  return 0;
}

/* What one process says that has a session with the directory: how many of the stacks of its own loop are whole. */
static unsigned long take(const char *what, bool *whole) {
  int pipe_ends[2];
  static char text[8192];
  cr_assert_eq(pipe(pipe_ends), 0);
  memset(text, 0, sizeof(text));
  const pid_t child = fork();
  if (child == 0) {
    onstack_options options = t_options(500, NULL, NULL);
    t_collector *collector = t_collector_new();
    options.sink = t_collect;
    options.sink_data = collector;
    if (onstack_tables_keep_in(directory) != 0) _exit(1);
    onstack_session *session = t_start(&options);
    t_burn(0.2);
    onstack_stats stats = t_stats(session);
    onstack_session_stats_text(session, put_text, text);
    t_finish(session);
    dprintf(pipe_ends[1], "%d %s", stats.recorded > 50 && stats.truncated * 10 < stats.recorded, text);
    _exit(0);
  }
  close(pipe_ends[1]);
  for (size_t used = 0; used < sizeof(text) - 1;) {
    const ssize_t got = read(pipe_ends[0], text + used, sizeof(text) - 1 - used);
    if (got <= 0) break;
    used += (size_t)got;
  }
  close(pipe_ends[0]);
  waitpid(child, NULL, 0);
  *whole = text[0] == '1';
  const char *line = strstr(text, "onstack.tables ");
  cr_assert_not_null(line, "%s", text);
  const char *found = strstr(line, what);
  cr_assert_not_null(found, "%s", line);
  return strtoul(found + strlen(what), NULL, 10);
}

Test(table_files, a_second_process_reads_what_the_first_has_kept) {
  bool whole = false;
  const unsigned long kept = take("kept=", &whole);
  cr_assert_geq(kept, 1, "libc at least");
  cr_assert(whole);
  const unsigned long read_again = take("read=", &whole);
  cr_assert_eq(read_again, kept, "%lu of %lu", read_again, kept);
  cr_assert(whole);
  cr_assert_eq(take("kept=", &whole), 0);
}

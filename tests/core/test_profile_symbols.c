/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names: the size rule, the order of sources, the host's symbolizer. */
#include "test_profile_support.h"

#include "profile/elf/elf_symbols.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Code with symbols of known places and sizes. It is never run. */
__asm__(".text\n.balign 16\n"
        ".type asm_function, %function\n.globl asm_function\nasm_function: .fill 16, 1, 0\n"
        ".size asm_function, 16\n"
        "asm_gap: .fill 16, 1, 0\n" /* a label without a size */
        ".type asm_sized_label, %notype\nasm_sized_label: .fill 16, 1, 0\n.size asm_sized_label, 16\n"
        ".type asm_object, %object\nasm_object: .fill 16, 1, 0\n.size asm_object, 16\n"
        ".type asm_alias_local, %function\n.type asm_alias_weak, %function\n.type asm_alias_global, %function\n"
        ".weak asm_alias_weak\n.globl asm_alias_global\n"
        "asm_alias_local: asm_alias_weak: asm_alias_global: .fill 16, 1, 0\n"
        ".size asm_alias_local, 16\n.size asm_alias_weak, 16\n.size asm_alias_global, 16\n"
        ".type asm_outer, %function\n.type asm_inner, %function\n"
        "asm_outer: .fill 8, 1, 0\nasm_inner: .fill 8, 1, 0\n.size asm_inner, 8\n.fill 8, 1, 0\n"
        ".size asm_outer, 24\n");
extern const char asm_function[];

static __attribute__((noinline)) int symbols_static_function(int x) { return x * 7 + 1; }
__attribute__((noinline)) int symbols_global_function(int x) { return symbols_static_function(x) * 5; }

static uint64_t address_of(const void *code) { return (uint64_t)(uintptr_t)code; }

/* The name of one address, by way of a folded profile; the caller frees it. */
static char *name_of(uint64_t address, const onstack_write_options *options) {
  onstack_profile_options merged = {.size = sizeof(merged), .thread_names = ONSTACK_OFF};
  onstack_profile *profile = profile_of(&merged);
  feed(profile, &address, 1);
  char *text = folded_text(profile, options);
  onstack_profile_free(profile);
  cr_assert_not_null(strrchr(text, ' '));
  *strrchr(text, ' ') = '\0';
  return text;
}

static void check_name(uint64_t address, const char *expected) {
  char *name = name_of(address, NULL);
  cr_assert_str_eq(name, expected);
  free(name);
}

Test(profile_symbols, functions_of_the_program_are_named) {
  onstack_profile *profile = profile_of(NULL);
  uint64_t frames[] = {address_of((void *)symbols_static_function), address_of((void *)symbols_global_function) + 1};
  feed(profile, frames, 2);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_str_eq(d_stack(out, 0), "symbols_static_function;symbols_global_function");
  decoded_free(out);
  onstack_profile_free(profile);
}

typedef struct module {
  const char *part; /* of the path */
  uint64_t bias, code_end;
  char path[512];
} module;

static int find_module(struct dl_phdr_info *info, size_t size, void *data) {
  module *wanted = data;
  (void)size;
  if (!strstr(info->dlpi_name, wanted->part)) return 0;
  wanted->bias = info->dlpi_addr;
  snprintf(wanted->path, sizeof(wanted->path), "%s", info->dlpi_name);
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0) {
      wanted->code_end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
    }
  }
  return 1;
}

Test(profile_symbols, a_name_counts_inside_its_size_only) {
  uint64_t start = address_of(asm_function);
  module program = {.part = ""};
  dl_iterate_phdr(find_module, &program);
  char gap[256];
  check_name(start, "asm_function");
  check_name(start + 15, "asm_function");
  snprintf(gap, sizeof(gap), "%s+0x%lx", program_name(), (unsigned long)(start + 16 - program.bias));
  check_name(start + 16, gap);
  snprintf(gap, sizeof(gap), "%s+0x%lx", program_name(), (unsigned long)(start + 31 - program.bias));
  check_name(start + 31, gap);
  check_name(start + 32, "asm_sized_label");
  snprintf(gap, sizeof(gap), "%s+0x%lx", program_name(), (unsigned long)(start + 48 - program.bias));
  check_name(start + 48, gap); /* an object is no function */
}

Test(profile_symbols, global_before_weak_before_local_and_inner_before_outer) {
  uint64_t start = address_of(asm_function) + 64;
  check_name(start + 3, "asm_alias_global");
  check_name(start + 16, "asm_outer");
  check_name(start + 24, "asm_inner");
  check_name(start + 31, "asm_inner");
  check_name(start + 32, "asm_outer");
}

Test(profile_symbols, libc_by_its_dynamic_symbols) {
  module libc = {.part = "libc.so"};
  cr_assert_eq(dl_iterate_phdr(find_module, &libc), 1);
  onstack_elf_file file;
  cr_assert_eq(onstack_elf_open_file(&file, libc.path), 0);
  uint64_t function = address_of(dlsym(RTLD_DEFAULT, "getppid"));
  onstack_elf_query queries[] = {{.address = function - libc.bias}, {.address = libc.code_end - libc.bias}};
  onstack_profile_arena names = {0};
  cr_assert_eq(onstack_elf_symbols_find(&file, ONSTACK_ELF_SECTION_DYNSYM, queries, 2, &names), 0);
  cr_assert_str_eq(queries[0].name, "getppid");
  cr_assert_null(queries[1].name);
  onstack_elf_close(&file);
  /* Through the profile a debug file may be in the way, whose name for it is another alias. */
  char *name = name_of(function, NULL);
  cr_assert_not_null(strstr(name, "getppid"), "%s", name);
  free(name);
  onstack_profile_arena_release(&names);
}

Test(profile_symbols, a_gap_of_libc_is_module_and_offset) {
  module libc = {.part = "libc.so"};
  cr_assert_eq(dl_iterate_phdr(find_module, &libc), 1);
  char expected[64];
  snprintf(expected, sizeof(expected), "libc.so.6+0x%lx", (unsigned long)(libc.code_end - libc.bias));
  check_name(libc.code_end, expected); /* between the end of the code and the end of its page */
}

Test(profile_symbols, the_vdso_is_read_from_memory) {
  void *vdso = dlopen("linux-vdso.so.1", RTLD_NOLOAD | RTLD_LAZY);
  void *function = !vdso ? NULL : dlsym(vdso, "__vdso_gettimeofday");
  if (vdso && !function) function = dlsym(vdso, "__kernel_gettimeofday");
  if (!function) cr_skip_test("no vdso here");
  char *name = name_of(address_of(function), NULL);
  cr_assert_not_null(strstr(name, "gettimeofday"), "%s", name);
  free(name);
}

Test(profile_symbols, an_address_of_no_mapping_stays_a_number) {
  check_name(0x1234, "0x1234");
  check_name(0, "0x0");
  check_name(UINT64_MAX, "0xffffffffffffffff");
}

/* ---- generated code ---- */

static char perf_map_path[64];

static void write_perf_map(uint64_t code) {
  snprintf(perf_map_path, sizeof(perf_map_path), "/tmp/perf-%d.map", (int)getpid());
  FILE *file = fopen(perf_map_path, "w");
  cr_assert_not_null(file);
  fprintf(file, "%llx 40 JS:*first /a b.js:1:2\n", (unsigned long long)code);
  fprintf(file, "no line\n%llx -1 nonsense\n", (unsigned long long)code);
  fprintf(file, "0x%llx 0x10 second\r\n", (unsigned long long)code + 0x20);
  fprintf(file, "%llx 10 half a li", (unsigned long long)code);
  fclose(file);
}

Test(profile_symbols, generated_code_has_the_names_of_the_perf_map) {
  void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t code = address_of(page);
  char number[32];
  snprintf(number, sizeof(number), "0x%llx", (unsigned long long)code);
  check_name(code, number);
  write_perf_map(code);
  check_name(code, "JS:*first /a b.js:1:2");
  check_name(code + 0x3f, "JS:*first /a b.js:1:2");
  check_name(code + 0x20, "second"); /* the later line */
  check_name(code + 0x30, "JS:*first /a b.js:1:2");
  snprintf(number, sizeof(number), "0x%llx", (unsigned long long)code + 0x40);
  check_name(code + 0x40, number);
  check_name(address_of((void *)symbols_static_function), "symbols_static_function");
  unlink(perf_map_path);
}

/* An earlier process had the same number: the first of a container, or one of long ago. */
Test(profile_symbols, a_perf_map_of_an_earlier_process_is_not_read) {
  void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t code = address_of(page);
  char number[32];
  struct timespec times[2];
  write_perf_map(code);
  check_name(code, "JS:*first /a b.js:1:2");
  clock_gettime(CLOCK_REALTIME, &times[1]);
  times[1].tv_sec -= 3600;
  times[0] = times[1];
  cr_assert_eq(utimensat(AT_FDCWD, perf_map_path, times, 0), 0);
  snprintf(number, sizeof(number), "0x%llx", (unsigned long long)code);
  check_name(code, number);
  unlink(perf_map_path);
}

Test(profile_symbols, a_perf_map_that_may_be_somebody_elses_is_not_read) {
  void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t code = address_of(page);
  char number[32], target[80];
  write_perf_map(code);
  snprintf(number, sizeof(number), "0x%llx", (unsigned long long)code);
  snprintf(target, sizeof(target), "%s.target", perf_map_path);
  if (chown(perf_map_path, 65534, 65534) == 0) { /* root's tests alone */
    check_name(code, number);
    cr_assert_eq(chown(perf_map_path, 0, 0), 0);
  }
  cr_assert_eq(rename(perf_map_path, target), 0);
  cr_assert_eq(symlink(target, perf_map_path), 0);
  check_name(code, number);
  unlink(perf_map_path);
  unlink(target);
  cr_assert_eq(mkfifo(perf_map_path, 0600), 0);
  check_name(code, number);
  unlink(perf_map_path);
}

/* ---- the host's symbolizer ---- */

static int inlining_symbolizer(void *data, const uint64_t *addresses, size_t count, onstack_symbol_table *table) {
  size_t *calls = data;
  ++*calls;
  for (size_t i = 0; i < count; i++) {
    if (addresses[i] != address_of((void *)symbols_static_function)) continue;
    char text[32] = "app::inner<a;b>"; /* strings live during the call only */
    onstack_symbol_line inner = {
        .size = sizeof(inner), .name = text, .system_name = "_ZN5inner", .file = "in.rs", .line = 12, .start_line = 10};
    onstack_symbol_line middle = {.size = sizeof(middle), .name = "app::middle"};
    onstack_symbol_line outer = {.size = sizeof(outer), .system_name = "_ZN5outer", .file = "out.rs", .line = 99};
    cr_assert_eq(onstack_symbol_add(table, i, &inner), 0);
    memset(text, 'X', sizeof(text) - 1);
    cr_assert_eq(onstack_symbol_add(table, i, &middle), 0);
    cr_assert_eq(onstack_symbol_add(table, i, &outer), 0);
  }
  return 0;
}

Test(profile_symbols, inlined_functions_are_lines_of_one_location) {
  size_t calls = 0;
  onstack_write_options options = {.size = sizeof(options), .symbolizer = inlining_symbolizer, .symbolizer_data = &calls};
  onstack_profile *profile = profile_of(NULL);
  uint64_t frames[] = {address_of((void *)symbols_static_function), address_of((void *)symbols_global_function) + 1};
  feed(profile, frames, 2);
  decoded *out = write_and_decode(profile, &options);
  cr_assert_eq(calls, 1);
  cr_assert_str_eq(d_stack(out, 0), "app::inner<a;b>;app::middle;_ZN5outer;symbols_global_function");
  cr_assert_eq(out->samples[0].location_count, 2);
  const d_location *leaf = d_find_location(out, out->samples[0].locations[0]);
  const d_function *inner = d_find_function(out, leaf->lines[0].function);
  cr_assert_str_eq(d_text(out, inner->system_name), "_ZN5inner");
  cr_assert_str_eq(d_text(out, inner->file), "in.rs");
  cr_assert_eq(inner->start_line, 10);
  cr_assert_eq(leaf->lines[0].line, 12);
  cr_assert_eq(leaf->lines[2].line, 99);
  cr_assert(out->mappings[0].functions && out->mappings[0].files && out->mappings[0].lines && out->mappings[0].inlines);
  decoded_free(out);
  char *text = folded_text(profile, &options);
  cr_assert_str_eq(text, "worker;symbols_global_function;_ZN5outer;app::middle;app::inner<a:b> 1\n");
  free(text);
  onstack_profile_free(profile);
}

static int wrong_symbolizer(void *data, const uint64_t *addresses, size_t count, onstack_symbol_table *table) {
  onstack_symbol_line line = {.size = sizeof(line), .name = "wrong"};
  (void)data, (void)addresses;
  cr_assert_eq(onstack_symbol_add(table, count, &line), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_symbol_add(table, SIZE_MAX, &line), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_symbol_add(table, 0, NULL), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_symbol_add(NULL, 0, &line), ONSTACK_E_OPTIONS);
  line.reserved = 1;
  cr_assert_eq(onstack_symbol_add(table, 0, &line), ONSTACK_E_OPTIONS);
  line = (onstack_symbol_line){.size = 0, .name = "wrong"};
  cr_assert_eq(onstack_symbol_add(table, 0, &line), ONSTACK_E_OPTIONS);
  line = (onstack_symbol_line){.size = sizeof(line), .file = "nobody.c"};
  cr_assert_eq(onstack_symbol_add(table, 0, &line), 0); /* no name: no line */
  return 0;
}

Test(profile_symbols, wrong_names_are_refused_and_leave_the_address_to_elf) {
  onstack_write_options options = {.size = sizeof(options), .symbolizer = wrong_symbolizer};
  char *name = name_of(address_of((void *)symbols_static_function), &options);
  cr_assert_str_eq(name, "symbols_static_function");
  free(name);
}

/* _Z1f1 and _Z1f2 mean f. */
static size_t stripping_demangler(void *data, const char *system_name, char *out, size_t capacity) {
  ++*(size_t *)data;
  if (strcmp(system_name, "_Zlong") == 0) {
    memset(out, 'n', capacity);
    return SIZE_MAX;
  }
  if (strncmp(system_name, "_Z1", 3) != 0) return 0;
  out[0] = system_name[3];
  return 1;
}

static int mangled_symbolizer(void *data, const uint64_t *addresses, size_t count, onstack_symbol_table *table) {
  static const char *const names[] = {"_Z1f1", "_Z1f2", "plain", "_Zlong", "_Z1f1"};
  (void)data;
  for (size_t i = 0; i < count; i++) {
    onstack_symbol_line line = {.size = sizeof(line), .system_name = names[addresses[i] & 15]};
    if ((addresses[i] & 15) == 4) line.name = "the symbolizer's own";
    cr_assert_eq(onstack_symbol_add(table, i, &line), 0);
  }
  return 0;
}

Test(profile_symbols, names_are_demangled_once_each_and_symbols_stay) {
  size_t calls = 0;
  onstack_write_options options = {
      .size = sizeof(options), .symbolizer = mangled_symbolizer, .demangler = stripping_demangler, .demangler_data = &calls};
  onstack_profile *profile = profile_of(NULL);
  for (uint64_t kind = 0; kind < 5; kind++) {
    uint64_t one[] = {0x50000 + kind}, other[] = {0x50010 + kind};
    feed(profile, one, 1);
    feed(profile, other, 1);
  }
  char *text = folded_text(profile, &options);
  cr_assert_eq(calls, 4); /* not for what has a name already */
  cr_assert_eq(strncmp(text, "worker;f 4\nworker;nnn", 21), 0);
  cr_assert_not_null(strstr(text, "n 2\nworker;plain 2\nworker;the symbolizer's own 2\n"));
  cr_assert_eq(strlen(text), strlen("worker;f 4\nworker; 2\nworker;plain 2\nworker;the symbolizer's own 2\n") + 16384);
  free(text);
  decoded *out = write_and_decode(profile, &options);
  size_t seen = 0;
  for (size_t i = 0; i < out->function_count; i++) {
    bool is_f = strcmp(d_text(out, out->functions[i].name), "f") == 0;
    if (is_f) cr_assert_eq(strncmp(d_text(out, out->functions[i].system_name), "_Z1f", 4), 0);
    seen += is_f;
  }
  cr_assert_eq(seen, 2); /* two symbols of one name are two functions */
  decoded_free(out);
  calls = 0;
  options.symbolize = ONSTACK_OFF;
  decoded_free(write_and_decode(profile, &options));
  cr_assert_eq(calls, 0);
  onstack_profile_free(profile);
}

static int naming_symbolizer(void *data, const uint64_t *addresses, size_t count, onstack_symbol_table *table) {
  const char *const *names = data;
  for (size_t i = 0; i < count; i++) {
    onstack_symbol_line line = {.size = sizeof(line), .name = names[addresses[i] & 15]};
    cr_assert_eq(onstack_symbol_add(table, i, &line), 0);
  }
  return 0;
}

Test(profile_symbols, folded_lines_are_sorted_and_merged_by_name) {
  const char *names[] = {"fa", "f", "f (cold)", "x", "f"};
  onstack_write_options options = {.size = sizeof(options), .symbolizer = naming_symbolizer, .symbolizer_data = names};
  onstack_profile *profile = profile_of(NULL);
  for (uint64_t caller = 0; caller < 5; caller++) {
    uint64_t frames[] = {0x50003, 0x50000 + caller + 1};
    feed(profile, frames, 2);
  }
  char *text = folded_text(profile, &options);
  cr_assert_str_eq(text, "worker;f (cold);x 1\nworker;f;x 2\nworker;fa;x 1\nworker;x;x 1\n");
  free(text);
  onstack_profile_free(profile);
}

Test(profile_symbols, a_writer_that_refuses_gets_no_long_name_either) {
  enum { length = 200000 };
  char *name = malloc(length + 1);
  memset(name, 'n', length);
  name[length] = '\0';
  const char *names[] = {name};
  onstack_write_options options = {.size = sizeof(options), .symbolizer = naming_symbolizer, .symbolizer_data = names};
  onstack_profile *profile = profile_of(NULL);
  uint64_t frame = 0x50000;
  feed(profile, &frame, 1);
  memory into = {.refuse_at = 1};
  cr_assert_eq(onstack_profile_write_folded(profile, &options, memory_write, &into), ONSTACK_E_OUTPUT);
  cr_assert_eq(into.calls, 1);
  char *text = folded_text(profile, &options);
  cr_assert_eq(strlen(text), strlen("worker; 1\n") + length);
  free(text);
  free(name);
  onstack_profile_free(profile);
}

static int failing_symbolizer(void *data, const uint64_t *addresses, size_t count, onstack_symbol_table *table) {
  (void)addresses, (void)count, (void)table;
  return *(int *)data;
}

Test(profile_symbols, a_symbolizer_that_fails_ends_the_write_with_its_code) {
  onstack_profile *profile = profile_of(NULL);
  int codes[] = {-EIO, 77};
  for (size_t i = 0; i < 2; i++) {
    onstack_write_options options = {
        .size = sizeof(options), .symbolizer = failing_symbolizer, .symbolizer_data = &codes[i]};
    memory into = {0};
    onstack_profile_clear(profile);
    /* Nothing to ask: not called. */
    cr_assert_eq(onstack_profile_write_folded(profile, &options, memory_write, &into), 0);
    uint64_t frame = 0x1234;
    feed(profile, &frame, 1);
    cr_assert_eq(onstack_profile_write_folded(profile, &options, memory_write, &into), codes[i]);
    cr_assert_eq(onstack_profile_write_pprof(profile, &options, memory_write, &into), codes[i]);
    cr_assert_eq(into.calls, 0);
    options.symbolize = ONSTACK_OFF;
    cr_assert_eq(onstack_profile_write_folded(profile, &options, memory_write, &into), 0);
    free(into.bytes);
  }
  onstack_profile_free(profile);
}

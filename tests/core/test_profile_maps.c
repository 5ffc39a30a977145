/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Libraries that come, go, and are replaced on disk during the life of a profile. */
#include "test_profile_image.h"
#include "test_profile_support.h"

#include "profile/maps/maps.h"

#include <dlfcn.h>
#include <sched.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct bytes {
  char *data;
  size_t length;
} bytes;

static bytes read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  cr_assert_not_null(file, "%s", path);
  bytes all = {0};
  fseek(file, 0, SEEK_END);
  all.length = (size_t)ftell(file);
  rewind(file);
  all.data = malloc(all.length);
  cr_assert_eq(fread(all.data, 1, all.length, file), all.length);
  fclose(file);
  return all;
}

static void write_file(const char *path, bytes all) {
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file, "%s", path);
  cr_assert_eq(fwrite(all.data, 1, all.length, file), all.length);
  fclose(file);
}

static int find_libm(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  if (!strstr(info->dlpi_name, "libm.so")) return 0;
  snprintf(data, 512, "%s", info->dlpi_name);
  return 1;
}

/* A copy of libm in a new directory; loaded. */
typedef struct plugin {
  char directory[64], path[128];
  bytes content;
  void *handle;
  uint64_t function;
} plugin;

static plugin plugin_load(void) {
  char libm[512] = "";
  plugin it = {.directory = P_tmpdir "/onstack-maps-XXXXXX"};
  void *original = dlopen("libm.so.6", RTLD_NOW);
  cr_assert_not_null(original);
  dl_iterate_phdr(find_libm, libm);
  cr_assert_not_null(mkdtemp(it.directory));
  snprintf(it.path, sizeof(it.path), "%s/plugin.so", it.directory);
  it.content = read_file(libm);
  write_file(it.path, it.content);
  it.handle = dlopen(it.path, RTLD_NOW | RTLD_LOCAL);
  cr_assert_not_null(it.handle, "%s", dlerror());
  it.function = (uint64_t)(uintptr_t)dlsym(it.handle, "nextafter");
  cr_assert_neq(it.function, (uint64_t)(uintptr_t)dlsym(original, "nextafter"), "the copy is the original");
  dlclose(original);
  return it;
}

static void plugin_remove(plugin *it) {
  unlink(it->path);
  rmdir(it->directory);
  free(it->content.data);
}

static void check_plugin(onstack_profile *profile, const plugin *it) {
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_not_null(strstr(d_stack(out, 0), "nextafter"), "%s", d_stack(out, 0));
  const d_location *location = d_find_location(out, out->samples[0].locations[0]);
  cr_assert_str_eq(d_text(out, d_find_mapping(out, location->mapping)->file), it->path);
  cr_assert_neq(d_find_mapping(out, location->mapping)->build_id, 0);
  decoded_free(out);
}

/* The pause between two looks at the mappings is a quarter of a second. */
static void wait_for_next_look(void) { nanosleep(&(struct timespec){.tv_nsec = 300 * 1000 * 1000}, NULL); }

Test(profile_maps, a_library_loaded_later_is_found_and_keeps_its_names_when_it_is_gone) {
  onstack_profile *profile = profile_of(NULL);
  plugin it = plugin_load();
  wait_for_next_look();
  feed(profile, &it.function, 1); /* in no known mapping: looked up now */
  dlclose(it.handle);
  wait_for_next_look();
  uint64_t nowhere = 0x1234;
  feed(profile, &nowhere, 1); /* the sink looks again, */
  check_plugin(profile, &it); /* and so does each write */
  check_plugin(profile, &it);
  plugin_remove(&it);
  onstack_profile_free(profile);
}

Test(profile_maps, a_look_that_came_too_soon_is_made_up_for) {
  onstack_profile *profile = profile_of(NULL);
  plugin it = plugin_load();
  feed(profile, &it.function, 1); /* too soon after the start */
  wait_for_next_look();
  feed(profile, &it.function, 1); /* known stack, but the look is still to come */
  dlclose(it.handle);
  check_plugin(profile, &it);
  plugin_remove(&it);
  onstack_profile_free(profile);
}

Test(profile_maps, clear_forgets_libraries_that_are_gone) {
  plugin it = plugin_load();
  onstack_profile *profile = profile_of(NULL);
  dlclose(it.handle);
  onstack_profile_clear(profile);
  feed(profile, &it.function, 1);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_eq(d_find_location(out, out->samples[0].locations[0])->mapping, 0);
  decoded_free(out);
  plugin_remove(&it);
  onstack_profile_free(profile);
}

/* Another build of the library: other names at the same addresses, and another build id. */
static void spoil(bytes content) {
  for (size_t i = 0; i + 36 < content.length; i++) {
    if (memcmp(content.data + i, "nextafter", 9) == 0) memcpy(content.data + i, "XXXXXXXXX", 9);
    if (memcmp(content.data + i, "\x14\0\0\0\x03\0\0\0GNU", 12) == 0) content.data[i + 12] ^= 1;
  }
}

/* Closes the library and opens that file instead; false: the loader chose another place. */
static bool plugin_succeed(plugin *it, const char *path) {
  uint64_t place = it->function, offset = place - ((struct link_map *)it->handle)->l_addr;
  cr_assert_eq(dlclose(it->handle), 0);
  it->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  cr_assert_not_null(it->handle, "%s", dlerror());
  it->function = ((struct link_map *)it->handle)->l_addr + offset;
  return it->function == place;
}

/* Another build of the library, beside it, that the loader puts into its place; false: it does not. */
static bool plugin_build_other(plugin *it, char path[160]) {
  snprintf(path, 160, "%s.other", it->path);
  spoil(it->content);
  write_file(path, it->content);
  /* The first time there may be a better hole. */
  bool same = false;
  for (int i = 0; i < 4 && !same; i++) same = plugin_succeed(it, path) & plugin_succeed(it, it->path);
  if (!same) unlink(path);
  return same;
}

/* The note of the build id becomes one that nobody knows. */
static void forget_build_id(bytes content) {
  for (size_t i = 0; i + 36 < content.length; i++) {
    if (memcmp(content.data + i, "\x14\0\0\0\x03\0\0\0GNU", 12) == 0) content.data[i + 4] = 0x33;
  }
}

/* A library without a build id that is closed again, and whose file becomes another build's. */
static void check_nameless_build(bool in_place) {
  plugin it = plugin_load();
  cr_assert_eq(dlclose(it.handle), 0);
  forget_build_id(it.content);
  cr_assert_eq(unlink(it.path), 0);
  write_file(it.path, it.content);
  it.handle = dlopen(it.path, RTLD_NOW | RTLD_LOCAL);
  cr_assert_not_null(it.handle, "%s", dlerror());
  it.function = (uint64_t)(uintptr_t)dlsym(it.handle, "nextafter");
  onstack_profile *profile = profile_of(NULL);
  feed(profile, &it.function, 1);
  dlclose(it.handle);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_not_null(strstr(d_stack(out, 0), "nextafter"), "%s", d_stack(out, 0));
  cr_assert_eq(d_find_mapping(out, d_find_location(out, out->samples[0].locations[0])->mapping)->build_id, 0);
  decoded_free(out);
  spoil(it.content);
  nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL); /* files' times are as coarse as the kernel's ticks */
  if (!in_place) cr_assert_eq(unlink(it.path), 0);
  write_file(it.path, it.content);
  out = write_and_decode(profile, NULL);
  cr_assert(strncmp(d_stack(out, 0), "plugin.so+0x", 12) == 0, "%s", d_stack(out, 0));
  decoded_free(out);
  plugin_remove(&it);
  onstack_profile_free(profile);
}

Test(profile_maps, a_file_without_a_build_id_names_nothing_once_it_is_another) { check_nameless_build(false); }

Test(profile_maps, a_file_without_a_build_id_names_nothing_once_it_is_written_over) { check_nameless_build(true); }

static void feed_at(onstack_profile *profile, uint64_t address, uint64_t time_ns, int32_t tid) {
  onstack_sample sample = sample_of(&address, 1);
  sample.time_ns = time_ns;
  sample.tid = tid;
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What the symbolizer of a host sees: the addresses of what lies there now. */
static size_t asked;

static int count_asked(void *data, const uint64_t *addresses, size_t count, onstack_symbol_table *table) {
  (void)data, (void)addresses, (void)table;
  asked = count;
  return 0;
}

/* The name of the leaf of each sample; what is unknown has neither an address nor a mapping. */
static void check_names(onstack_profile *profile, uint64_t place, const char *const names[], size_t count) {
  decoded *out =
      write_and_decode(profile, &(onstack_write_options){.size = sizeof(onstack_write_options), .symbolizer = count_asked});
  cr_assert_eq(out->sample_count, count);
  for (size_t i = 0; i < count; i++) {
    const d_location *location = d_find_location(out, out->samples[i].locations[0]);
    const bool unknown = names[i][0] == '[';
    cr_assert_not_null(strstr(d_stack(out, i), names[i]), "sample %zu: %s", i, d_stack(out, i));
    cr_assert_eq(location->address, unknown ? 0 : place);
    cr_assert_eq(location->mapping == 0, unknown);
    if (unknown) continue;
    const d_mapping *mapping = d_find_mapping(out, location->mapping);
    cr_assert(mapping->start <= place && place < mapping->limit);
  }
  decoded_free(out);
}

Test(profile_maps, a_library_in_the_place_of_another_has_names_once_the_profile_begins_anew) {
  plugin it = plugin_load();
  char other[160];
  if (!plugin_build_other(&it, other)) {
    plugin_remove(&it);
    cr_skip_test("the loader puts the successor elsewhere");
  }
  uint64_t place = it.function;
  onstack_profile *profile = profile_of(NULL);
  uint64_t before = now_ns();
  feed_at(profile, place, now_ns(), 1);
  uint64_t between = now_ns();
  cr_assert(plugin_succeed(&it, other));
  feed_at(profile, place, between, 2); /* comes late */
  feed_at(profile, place, now_ns(), 3);
  feed_at(profile, place, 0, 4);      /* of a host's own making, and of now */
  feed_at(profile, place, before, 5); /* comes late, and from the time of the first */
  asked = 0;
  check_names(profile, place,
              (const char *const[]){"nextafter", "[replaced code]", "[replaced code]", "[replaced code]", "nextafter"}, 5);
  cr_assert_eq(asked, 0, "the host was asked for a file that is not there");
  char *text = folded_text(profile, NULL);
  cr_assert_not_null(strstr(text, "worker;[replaced code] 3"), "%s", text);
  free(text);
  onstack_profile_clear(profile);
  feed_at(profile, place, now_ns(), 6);
  check_names(profile, place, (const char *const[]){"XXXXXXXXX"}, 1);
  dlclose(it.handle);
  unlink(other);
  plugin_remove(&it);
  onstack_profile_free(profile);
}

/* Two changes before a sample of the time before both arrives. */
Test(profile_maps, a_sample_from_before_two_changes_is_not_given_the_name_in_between) {
  plugin it = plugin_load();
  char other[160];
  if (!plugin_build_other(&it, other)) {
    plugin_remove(&it);
    cr_skip_test("the loader puts the successor elsewhere");
  }
  uint64_t place = it.function;
  onstack_profile *profile = profile_of(NULL);
  uint64_t before = now_ns();
  cr_assert(plugin_succeed(&it, other));
  feed_at(profile, place, 0, 1);
  cr_assert(plugin_succeed(&it, it.path));
  feed_at(profile, place, before, 2);
  feed_at(profile, place, now_ns(), 3);
  check_names(profile, place, (const char *const[]){"[replaced code]", "[replaced code]", "nextafter"}, 3);
  dlclose(it.handle);
  unlink(other);
  plugin_remove(&it);
  onstack_profile_free(profile);
}

/* Code that an engine writes into a file that it maps twice: names come from elsewhere, and by the addresses of now. */
Test(profile_maps, generated_code_in_the_place_of_other_generated_code_is_known) {
  int descriptor = memfd_create("doublemapper", 0);
  cr_assert_geq(descriptor, 0);
  cr_assert_eq(ftruncate(descriptor, 0x4000), 0);
  char *code = mmap(NULL, 0x1000, PROT_READ | PROT_EXEC, MAP_SHARED, descriptor, 0);
  cr_assert_neq(code, MAP_FAILED);
  onstack_profile *profile = profile_of(NULL);
  cr_assert_eq(mmap(code, 0x1000, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, descriptor, 0x2000), code);
  uint64_t frame = (uint64_t)(uintptr_t)code + 100;
  free(folded_text(profile, NULL)); /* the mappings are read */
  feed(profile, &frame, 1);
  decoded *out = write_and_decode(profile, NULL);
  const d_location *location = d_find_location(out, out->samples[0].locations[0]);
  cr_assert_eq(location->address, frame, "%s", d_stack(out, 0));
  cr_assert_eq(d_find_mapping(out, location->mapping)->offset, 0x2000);
  decoded_free(out);
  munmap(code, 0x1000);
  close(descriptor);
  onstack_profile_free(profile);
}

#define PIECES 4500u

static bool add_piece(onstack_profile_maps *maps, uint64_t number) {
  char path[32];
  const uint64_t start = 0x100000000u + number * 0x2000;
  onstack_profile_mapping mapping = {.start = start, .limit = start + 0x1000, .inode = number + 1};
  snprintf(path, sizeof(path), "/plugin%u", (unsigned)number);
  mapping.path = onstack_profile_arena_text(&maps->arena, path, strlen(path));
  void *items = onstack_profile_grow(maps->items, &maps->capacity, maps->count + 1, sizeof(mapping));
  if (!mapping.path || !items) return false;
  maps->items = items;
  maps->items[maps->count++] = mapping;
  return true;
}

/* Libraries without end, each at a place of its own, and all gone. */
Test(profile_maps, what_finds_no_room_among_the_retired_is_counted) {
  onstack_profile_maps earlier = {.references = 1}, now = {.references = 1};
  for (uint64_t i = 0; i < PIECES; i++) cr_assert(add_piece(&earlier, i));
  cr_assert(onstack_profile_maps_unite(&now, &earlier, 1));
  cr_assert_eq(now.count, 4096);
  cr_assert_eq(now.forgotten, PIECES - 4096);
  onstack_profile_maps next = {.references = 1};
  cr_assert(add_piece(&next, PIECES));
  cr_assert(onstack_profile_maps_unite(&next, &now, 2));
  cr_assert_eq(next.count, 4097);
  cr_assert_eq(next.forgotten, PIECES - 4096, "nothing new was forgotten");
  onstack_profile_maps *sets[] = {&earlier, &now, &next};
  for (int i = 0; i < 3; i++) {
    onstack_profile_arena_release(&sets[i]->arena);
    free(sets[i]->items);
  }
}

/* Plugins that take turns at one place: one of them has names, and no change needs memory. */
Test(profile_maps, libraries_that_take_turns_need_no_memory) {
  plugin it = plugin_load();
  char other[160];
  if (!plugin_build_other(&it, other)) {
    plugin_remove(&it);
    cr_skip_test("the loader puts the successor elsewhere");
  }
  uint64_t place = it.function;
  onstack_profile *profile = profile_of(NULL);
  for (int round = 0; round < 40; round++) {
    feed_at(profile, place, 0, 1);
    cr_assert(plugin_succeed(&it, round % 2 == 0 ? other : it.path));
  }
  unlink(other);
  check_names(profile, place, (const char *const[]){"nextafter", "[replaced code]"}, 2);
  decoded *out = write_and_decode(profile, NULL);
  size_t plugins = 0;
  for (size_t i = 0; i < out->mapping_count; i++) {
    plugins += strncmp(d_text(out, out->mappings[i].file), it.path, strlen(it.path)) == 0;
  }
  cr_assert_eq(plugins, 1, "%zu mappings, %zu samples, %s", plugins, out->sample_count, d_stack(out, 0));
  for (size_t i = 0; i < 2; i++) cr_assert_eq(out->samples[i].values[0], 20);
  decoded_free(out);
  dlclose(it.handle);
  plugin_remove(&it);
  onstack_profile_free(profile);
}

Test(profile_maps, a_file_replaced_since_names_nothing) {
  plugin it = plugin_load();
  onstack_profile *profile = profile_of(NULL);
  feed(profile, &it.function, 1);
  char next[160];
  snprintf(next, sizeof(next), "%s.new", it.path);
  spoil(it.content);
  write_file(next, it.content);
  cr_assert_eq(rename(next, it.path), 0); /* as a package manager does */
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_null(strstr(d_stack(out, 0), "XXXXXXXXX"), "%s", d_stack(out, 0));
  /* Where the separate debug file of the old build is installed, it still names the function. */
  cr_assert(strstr(d_stack(out, 0), "nextafter") || strncmp(d_stack(out, 0), "plugin.so+0x", 12) == 0, "%s",
            d_stack(out, 0));
  decoded_free(out);
  dlclose(it.handle);
  plugin_remove(&it);
  onstack_profile_free(profile);
}

Test(profile_maps, generated_code_is_anonymous) {
  onstack_profile *profile = profile_of(NULL);
  void *code = mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(code, MAP_FAILED);
  uint64_t frame = (uint64_t)(uintptr_t)code + 100;
  feed(profile, &frame, 1);
  decoded *out = write_and_decode(profile, NULL);
  const d_location *location = d_find_location(out, out->samples[0].locations[0]);
  const d_mapping *mapping = d_find_mapping(out, location->mapping);
  char expected[32];
  snprintf(expected, sizeof(expected), "0x%lx", (unsigned long)frame);
  cr_assert_str_eq(d_stack(out, 0), expected);
  cr_assert_str_eq(d_text(out, mapping->file), "//anon");
  cr_assert_eq(mapping->functions, 0);
  decoded_free(out);
  munmap(code, 65536);
  onstack_profile_free(profile);
}

static void check_leaf(onstack_profile *profile, size_t sample, const char *expected) {
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_str_eq(d_stack(out, sample), expected);
  decoded_free(out);
}

/* Code whose virtual addresses differ from its file offsets: first whole, then gone, then half covered by others. */
Test(profile_maps, offsets_become_virtual_addresses_whatever_happens_to_the_mapping) {
  char path[] = P_tmpdir "/onstack-image-XXXXXX";
  int descriptor = mkstemp(path);
  cr_assert_geq(descriptor, 0);
  image it = image_make();
  it.segments[1].file_bytes = it.segments[1].memory_bytes = 0x3000;
  it.symbols[2].value = 0x4000; /* in the third page of code */
  cr_assert_eq(write(descriptor, &it, sizeof(it)), (ssize_t)sizeof(it));
  cr_assert_eq(ftruncate(descriptor, 0x4000), 0);
  char *base = mmap(NULL, 0x4000, PROT_READ, MAP_PRIVATE, descriptor, 0);
  cr_assert_neq(base, MAP_FAILED);
  cr_assert_eq(mprotect(base + 0x1000, 0x3000, PROT_READ | PROT_EXEC), 0);
  onstack_profile *profile = profile_of(NULL);
  uint64_t first = (uint64_t)(uintptr_t)base + 0x1025, third = (uint64_t)(uintptr_t)base + 0x3005;
  feed(profile, &first, 1);
  feed(profile, &third, 1);
  for (int round = 0; round < 4; round++) {
    check_leaf(profile, 0, "function01");
    check_leaf(profile, 1, "function02");
    if (round == 0) munmap(base, 0x4000);
    if (round == 1) {
      int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
      void *other = mmap(base + 0x2000, 0x1000, PROT_READ | PROT_EXEC, flags, -1, 0);
      cr_assert_eq(other, base + 0x2000);
    }
  }
  decoded *out = write_and_decode(profile, NULL);
  uint64_t mapping = d_find_location(out, out->samples[1].locations[0])->mapping;
  cr_assert_eq(d_find_mapping(out, mapping)->offset, 0x1000); /* whole, whatever lies there now */
  decoded_free(out);
  munmap(base + 0x2000, 0x1000);
  close(descriptor);
  unlink(path);
  onstack_profile_free(profile);
}

/* A chroot has no /proc, and most often not the files either: the loader knows the modules. */
Test(profile_maps, without_proc_the_loader_is_asked) {
  const char *program = program_name();
  if (chroot(P_tmpdir) != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot(P_tmpdir) != 0)) cr_skip_test("no chroot here");
  cr_assert_neq(access("/proc/self/maps", F_OK), 0);
  onstack_profile *profile = profile_of(NULL);
  uint64_t stack[] = {(uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "getppid"), (uint64_t)(uintptr_t)now_ns + 1};
  feed(profile, stack, 2);
  decoded *out = write_and_decode(profile, NULL);
  char expected[600];
  snprintf(expected, sizeof(expected), ";%s+0x", program);
  /* A program that was started by a relative path is found by it all the same, from the directory that it is in. */
  const bool known = strstr(d_stack(out, 0), expected) || strstr(d_stack(out, 0), ";now_ns");
  cr_assert(strncmp(d_stack(out, 0), "libc.so.6+0x", 12) == 0 && known, "%s", d_stack(out, 0));
  const d_location *leaf = d_find_location(out, out->samples[0].locations[0]);
  const d_location *root = d_find_location(out, out->samples[0].locations[1]);
  cr_assert_eq(root->mapping, 1); /* the program is the first */
  const d_mapping *libc = d_find_mapping(out, leaf->mapping), *own = &out->mappings[0];
  cr_assert(libc->start <= stack[0] && stack[0] < libc->limit && own->start <= stack[1] && stack[1] < own->limit);
  cr_assert_neq(libc->build_id, 0);
  decoded_free(out);
  onstack_profile_free(profile);
}

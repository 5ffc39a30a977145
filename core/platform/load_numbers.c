/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/load_numbers.h"

#if defined(__linux__) && defined(__GLIBC__)
#include "platform/atomics.h"
#include "platform/object_headers.h"
#include "platform/process_memory.h"

#include <string.h>
#include <sys/auxv.h>

#define NUMBERS_WORDS 192u   /* of a link_map: glibc 2.17 to 2.41 have some 150 */
#define NUMBERS_PUBLIC 5u    /* words of it that <link.h> declares */
#define NUMBERS_OBJECTS 3u   /* that agree at least */
#define NUMBERS_DYNAMIC 128u /* entries of the program's dynamic section that are searched */

/* Numbers of this module's callers: what is no object's number comes first. */
#define NUMBERS_LOADER 1u /* the loader itself, which stays and which glibc does not number */
#define NUMBERS_FIRST 2u

static uint32_t numbers_offset;  /* in words; 0: not found, or not searched for yet */
static uint32_t numbers_refused; /* the search has ended without one */

/* The head of the list, which debuggers find in the same way: by the program's DT_DEBUG. */
static const struct r_debug *numbers_list(void) {
  const uint64_t table = getauxval(AT_PHDR);
  struct dl_phdr_info program = {.dlpi_phdr = (const ElfW(Phdr) *)(uintptr_t)table,
                                 .dlpi_phnum = (ElfW(Half))getauxval(AT_PHNUM)};
  onstack_object_copy copy;
  ElfW(Dyn) entry;
  onstack_object_copy_headers(&program, &copy);
  for (uint32_t i = 0; i < copy.info.dlpi_phnum; i++)
    if (copy.headers[i].p_type == PT_PHDR) copy.info.dlpi_addr = table - copy.headers[i].p_vaddr;
  const uint64_t dynamic = onstack_object_segment(&copy.info, PT_DYNAMIC);
  for (uint32_t i = 0; dynamic && i < NUMBERS_DYNAMIC; i++) {
    if (!onstack_process_memory_read(dynamic + i * sizeof(entry), &entry, sizeof(entry)) || entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_DEBUG) return (const struct r_debug *)(uintptr_t)entry.d_un.d_ptr;
  }
  return NULL;
}

static const struct link_map *numbers_head(void) {
  static const struct r_debug *list;
  static uint32_t searched;
  if (!onstack_observe(&searched)) {
    onstack_store_relaxed(&list, numbers_list());
    onstack_publish(&searched, 1u);
  }
  const struct r_debug *found = onstack_load_relaxed(&list);
  return found ? onstack_load_relaxed(&found->r_map) : NULL;
}

typedef struct numbers_search {
  const struct link_map *next;
  bool possible[NUMBERS_WORDS];
  uint64_t last[NUMBERS_WORDS]; /* the number of the object before, by offset */
  uint32_t objects, with_relro;
} numbers_search;

static bool numbers_is_listed(const struct link_map *map, const struct dl_phdr_info *info) {
  return map && map->l_addr == info->dlpi_addr && map->l_name == info->dlpi_name;
}

static const ElfW(Phdr) * numbers_relro(const onstack_object_copy *copy) {
  for (uint32_t i = 0; i < copy->info.dlpi_phnum; i++)
    if (copy->headers[i].p_type == PT_GNU_RELRO && copy->headers[i].p_vaddr != 0) return &copy->headers[i];
  return NULL;
}

static int numbers_visit(struct dl_phdr_info *info, size_t size, void *data) {
  numbers_search *search = data;
  const struct link_map *map = search->next;
  uint64_t words[NUMBERS_WORDS];
  onstack_object_copy copy;
  (void)size;
  if (!numbers_is_listed(map, info)) {
    memset(search->possible, 0, sizeof(search->possible));
    return 1;
  }
  search->next = map->l_next;
  if (info->dlpi_addr != 0 && info->dlpi_addr == getauxval(AT_BASE)) return 0;
  const size_t count = onstack_process_memory_copy((uint64_t)(uintptr_t)map, words, sizeof(words)) / sizeof(words[0]);
  onstack_object_copy_headers(info, &copy);
  const ElfW(Phdr) *relro = numbers_relro(&copy);
  for (uint32_t i = NUMBERS_PUBLIC + 2; i < NUMBERS_WORDS; i++) {
    if (i >= count || (relro && (words[i - 2] != relro->p_vaddr || words[i - 1] != relro->p_memsz)))
      search->possible[i] = false;
    if (!search->possible[i]) continue;
    const bool follows = search->objects == 0 ? words[i] == 0 : words[i] > search->last[i];
    search->possible[i] = follows && words[i] < info->dlpi_adds;
    search->last[i] = words[i];
  }
  search->objects++;
  search->with_relro += relro ? 1 : 0;
  return 0;
}

static void numbers_find(void) {
  numbers_search search = {.next = numbers_head()};
  uint32_t offset = 0, found = 0;
  for (uint32_t i = NUMBERS_PUBLIC + 2; i < NUMBERS_WORDS; i++) search.possible[i] = true;
  dl_iterate_phdr(numbers_visit, &search);
  for (uint32_t i = 0; i < NUMBERS_WORDS; i++) {
    if (search.possible[i]) offset = i;
    found += search.possible[i];
  }
  if (found == 1 && search.with_relro > 0 && search.objects >= NUMBERS_OBJECTS)
    onstack_store_relaxed(&numbers_offset, offset);
  else
    onstack_store_relaxed(&numbers_refused, 1u);
}

void onstack_load_walk_begin(onstack_load_walk *walk) {
  walk->next = NULL;
  if (onstack_load_relaxed(&numbers_refused)) return;
  if (onstack_load_relaxed(&numbers_offset) == 0) numbers_find();
  if (onstack_load_relaxed(&numbers_offset) != 0) walk->next = numbers_head();
}

uint64_t onstack_load_walk_step(onstack_load_walk *walk, const struct dl_phdr_info *info) {
  const struct link_map *map = walk->next;
  if (!numbers_is_listed(map, info)) {
    walk->next = NULL;
    return 0;
  }
  walk->next = map->l_next;
  if (info->dlpi_addr != 0 && info->dlpi_addr == getauxval(AT_BASE)) return NUMBERS_LOADER;
  return NUMBERS_FIRST + ((const uint64_t *)(const void *)map)[onstack_load_relaxed(&numbers_offset)];
}
#elif defined(__linux__)
void onstack_load_walk_begin(onstack_load_walk *walk) { walk->next = NULL; }

uint64_t onstack_load_walk_step(onstack_load_walk *walk, const struct dl_phdr_info *info) {
  (void)walk, (void)info;
  return 0;
}
#endif

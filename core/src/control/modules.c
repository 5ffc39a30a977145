/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/modules.h"

#include "base/sys.h"
#include "control/loader.h"
#include "control/rule_table.h"
#include "control/threads.h"
#include "handler/pc_cache.h"
#include "handler/traceback.h"

#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct module_entry {
  onstack_module module;
  uint64_t section_header; /* .eh_frame_hdr, as loaded; 0: none */
  uint64_t section_end;    /* of the segment that holds it */
  uint64_t fingerprint;    /* of the header's first bytes: tells two objects at one address apart */
  const char *name;        /* in the list's `names`, for the time of one look */
  bool tried;
} module_entry;

#define MODULES_NAME_BYTES ((size_t)1 << 17) /* of all paths together */

typedef struct module_list {
  module_entry *entries;
  char *names; /* copies of what the loader calls them, for the time of one look */
  size_t names_used;
  uint32_t count;
  uint64_t adds, subs;
} module_list;

/* Lock order: control lock, then this one; never together with the code map's. */
static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;
static module_list modules_known;

/* Paths by number. Kept for ever: statistics name modules that were unloaded long ago. [0] is "no module". */
static const char *modules_paths[ONSTACK_MODULES + 1] = {""};
static uint32_t modules_path_count = 1;

/* Tables that the map does not name any more. Unmapped when every handler that may have read their address is gone. */
#define MODULES_RETIRED 256u
static const onstack_rule_table *modules_retired[MODULES_RETIRED];
static uint32_t modules_retired_count;

static void module_note_segments(module_entry *entry, const struct dl_phdr_info *info) {
  const ElfW(Phdr) *header = NULL;
  entry->module.base = UINT64_MAX;
  for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uint64_t low = info->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_GNU_EH_FRAME) header = segment;
    if (segment->p_type != PT_LOAD) continue;
    if (low < entry->module.base) entry->module.base = low;
    if (!(segment->p_flags & PF_X)) continue;
    if (entry->module.low == 0 || low < entry->module.low) entry->module.low = low;
    if (low + segment->p_memsz > entry->module.high) entry->module.high = low + segment->p_memsz;
  }
  if (!header) return;
  entry->section_header = info->dlpi_addr + header->p_vaddr;
  for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type == PT_LOAD && header->p_vaddr >= segment->p_vaddr &&
        header->p_vaddr < segment->p_vaddr + segment->p_filesz)
      entry->section_end = info->dlpi_addr + segment->p_vaddr + segment->p_filesz;
  }
}

static const char *module_copy_name(module_list *list, const char *name) {
  if (!name) name = "";
  size_t size = strlen(name) + 1;
  if (!list->names || size > MODULES_NAME_BYTES - list->names_used) return "";
  char *copy = list->names + list->names_used;
  memcpy(copy, name, size);
  list->names_used += size;
  return copy;
}

/* Copies only: a slow callback would hold the loader's lock and block dlopen elsewhere. */
static int module_copy(struct dl_phdr_info *info, size_t size, void *data) {
  module_list *list = data;
  (void)size;
  list->adds = info->dlpi_adds;
  list->subs = info->dlpi_subs;
  if (list->count == ONSTACK_MODULES) return 1;
  module_entry *entry = &list->entries[list->count];
  memset(entry, 0, sizeof(*entry));
  module_note_segments(entry, info);
  entry->name = module_copy_name(list, info->dlpi_name);
  if (entry->module.high != 0) list->count++;
  return 0;
}

/*
 * Copies loaded memory that may be unmapped by a dlclose at any instant. Returns the bytes copied. Where the kernel
 * refuses the call altogether (seccomp), a plain copy: then only a dlclose in this very moment can hurt.
 */
static size_t module_read(uint64_t address, void *out, size_t size) {
  struct onstack_vector local = {(uint64_t)(uintptr_t)out, size}, remote = {address, size};
  long got = onstack_sys_process_vm_readv(&local, 1, &remote, 1);
  if (got >= 0) return (size_t)got;
  uint8_t byte = 0;
  remote.base = (uint64_t)(uintptr_t)&byte;
  local.base = (uint64_t)(uintptr_t)out;
  local.length = remote.length = 1;
  if (onstack_sys_process_vm_readv(&local, 1, &remote, 1) == 1) return 0;
  memcpy(out, (const void *)(uintptr_t)address, size);
  return size;
}

static uint64_t module_fingerprint(const module_entry *entry) {
  uint8_t bytes[256];
  size_t size = entry->section_end - entry->section_header;
  size_t got = module_read(entry->section_header, bytes, size < sizeof(bytes) ? size : sizeof(bytes));
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
  for (size_t i = 0; i < got; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

/* .eh_frame's address from its header (LSB 10.6.2): version 1, then the encoding, which linkers write as pcrel sdata4. */
static uint64_t module_section_address(const module_entry *entry) {
  uint8_t head[8];
  int32_t relative;
  if (module_read(entry->section_header, head, sizeof(head)) != sizeof(head)) return 0;
  if (head[0] != 1 || head[1] != 0x1b) return 0;
  memcpy(&relative, head + 4, sizeof(relative));
  return entry->section_header + 4 + (uint64_t)(int64_t)relative;
}

/* What has to be read for a module's table: from .eh_frame to the end of its segment. 0: nothing there. A header may lead
   anywhere within 2 GiB; memory before the object is not its own. */
static size_t module_section_size(const module_entry *entry, uint64_t *address) {
  *address = module_section_address(entry);
  if (*address == 0 || *address < entry->module.base || *address >= entry->section_end) return 0;
  return entry->section_end - *address;
}

static const onstack_rule_table *module_derive(const module_entry *entry) {
  uint64_t address;
  size_t size = module_section_size(entry, &address);
  uint8_t *copy = size ? malloc(size) : NULL;
  if (!copy) return NULL;
  onstack_cfi_section section = {.bytes = copy, .size = module_read(address, copy, size), .address = address};
  const onstack_rule_table *table = onstack_rule_table_derive(&section, entry->module.base, entry->module.high);
  free(copy);
  return table;
}

/* Under the lock from here on. */

static int module_compare(const void *left, const void *right) {
  const module_entry *a = left, *b = right;
  return a->module.low < b->module.low ? -1 : a->module.low > b->module.low;
}

static void modules_publish(void) {
  uint32_t count = 0;
  onstack_store_relaxed(&onstack_modules.turn, onstack_modules.turn + 1); /* odd: a walk meanwhile finds no rules */
  onstack_fence_publish();
  for (uint32_t i = 0; i < modules_known.count; i++) {
    const module_entry *entry = &modules_known.entries[i];
    const onstack_module *from = &entry->module;
    onstack_module *to = &onstack_modules.modules[count];
    if (count > 0 && from->low < to[-1].high) continue; /* overlapping extents: never from a loader */
    onstack_store_relaxed(&to->low, from->low);
    onstack_store_relaxed(&to->high, from->high);
    onstack_store_relaxed(&to->base, from->base);
    onstack_store_relaxed(&to->table, from->table);
    onstack_store_relaxed(&to->number, from->number);
    onstack_store_relaxed(&to->pending, (uint32_t)(entry->section_header && !entry->tried));
    count++;
  }
  onstack_store_relaxed(&onstack_modules.count, count);
  onstack_publish(&onstack_modules.turn, onstack_modules.turn + 1);
  /* After the map: a handler with the new epoch finds only what the new map names. */
  onstack_dekker_add(&onstack_pc_epoch, (uint64_t)1);
}

static void modules_retire(const onstack_rule_table *table) {
  /* With no room left the table stays mapped: a leak of a few hundred KiB rather than a wait. */
  if (table && modules_retired_count < MODULES_RETIRED) modules_retired[modules_retired_count++] = table;
}

static bool module_is_same(const module_entry *a, const module_entry *b) {
  return a->module.low == b->module.low && a->module.high == b->module.high && a->module.base == b->module.base &&
         a->section_header == b->section_header && a->fingerprint == b->fingerprint;
}

/* The program itself has no name with the loader. */
static const char *module_path(const module_entry *entry, bool first, char buffer[4096]) {
  if (entry->name[0] != 0 || !first) return entry->name;
  ssize_t length = readlink("/proc/self/exe", buffer, 4095);
  buffer[length > 0 ? length : 0] = 0;
  return buffer;
}

static uint32_t module_number(const char *path) {
  if (path[0] == 0) return 0;
  for (uint32_t i = 1; i < modules_path_count; i++)
    if (strcmp(modules_paths[i], path) == 0) return i;
  char *copy = modules_path_count <= ONSTACK_MODULES ? strdup(path) : NULL;
  if (!copy) return 0;
  modules_paths[modules_path_count] = copy;
  return modules_path_count++;
}

/* Takes the new list over, with the tables of the objects that are in both. */
static void modules_take_over(module_list *fresh) {
  module_list old = modules_known;
  for (uint32_t i = 0; i < fresh->count; i++) {
    module_entry *entry = &fresh->entries[i];
    char buffer[4096];
    entry->module.number = module_number(module_path(entry, i == 0, buffer));
    entry->name = NULL;
    if (entry->section_header) entry->fingerprint = module_fingerprint(entry);
    for (uint32_t k = 0; k < old.count; k++) {
      if (!module_is_same(entry, &old.entries[k])) continue;
      entry->module.table = old.entries[k].module.table;
      entry->tried = old.entries[k].tried;
      old.entries[k].module.table = NULL;
      break;
    }
  }
  qsort(fresh->entries, fresh->count, sizeof(*fresh->entries), module_compare);
  modules_known = *fresh;
  modules_known.names = NULL; /* freed when the look is over */
  modules_publish();
  for (uint32_t k = 0; k < old.count; k++) modules_retire(old.entries[k].module.table);
  free(old.entries);
}

/* The loader's counts of what it loaded and unloaded: the same ones, the same objects. */
static int module_peek(struct dl_phdr_info *info, size_t size, void *data) {
  module_list *list = data;
  (void)size;
  list->adds = info->dlpi_adds;
  list->subs = info->dlpi_subs;
  return 1;
}

static void modules_look(void) {
  module_list now = {0};
  if (!onstack_loader_each(module_peek, &now)) return;
  if (modules_known.entries && now.adds == modules_known.adds && now.subs == modules_known.subs) return;
  module_list fresh = {.entries = calloc(ONSTACK_MODULES, sizeof(module_entry))};
  if (!fresh.entries) return;
  fresh.names = malloc(MODULES_NAME_BYTES);
  onstack_loader_each(module_copy, &fresh);
  modules_take_over(&fresh);
  free(fresh.names);
}

const char *onstack_modules_path(uint32_t number) {
  pthread_mutex_lock(&modules_lock);
  const char *path = number < modules_path_count ? modules_paths[number] : "";
  pthread_mutex_unlock(&modules_lock);
  return path;
}

/* The smallest section that has not been tried; NULL when all are. */
static module_entry *modules_next(size_t *size) {
  module_entry *next = NULL;
  for (uint32_t i = 0; i < modules_known.count; i++) {
    module_entry *entry = &modules_known.entries[i];
    uint64_t address;
    if (entry->tried || !entry->section_header) continue;
    size_t bytes = module_section_size(entry, &address);
    if (!next || bytes < *size) {
      next = entry;
      *size = bytes;
    }
  }
  return next;
}

static void modules_free_retired(void) {
  if (modules_retired_count == 0 || onstack_traceback_is_busy() || !onstack_threads_all_idle()) return;
  /* Off the list first: the child of a fork in between gives up one table, where it would unmap it a second time. */
  while (modules_retired_count > 0) {
    const onstack_rule_table *table = modules_retired[modules_retired_count - 1];
    onstack_publish(&modules_retired_count, modules_retired_count - 1);
    onstack_rule_table_free(table);
  }
}

bool onstack_modules_refresh(size_t budget_bytes) {
  size_t size = 0, spent = 0;
  module_entry *entry = NULL;
  bool derived = false;
  pthread_mutex_lock(&modules_lock);
  modules_look();
  while ((entry = modules_next(&size)) && budget_bytes > 0 && (spent == 0 || spent + size <= budget_bytes)) {
    entry->module.table = module_derive(entry);
    entry->tried = true;
    spent += size + 1;
    derived = true;
  }
  bool missing = entry != NULL;
  if (derived) modules_publish();
  modules_free_retired();
  pthread_mutex_unlock(&modules_lock);
  return missing;
}

void onstack_modules_after_fork(void) {
  modules_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  if (onstack_modules.turn & 1) {
    onstack_modules.count = 0;
    onstack_publish(&onstack_modules.turn, onstack_modules.turn + 1);
    modules_known = (module_list){0}; /* its memory may be in any state; a few KiB are given up */
  }
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/modules.h"

#include "platform/process.h"
#include "platform/loader.h"
#include "platform/proc.h"
#include "sampler/modules/cfi_entry.h"
#include "sampler/modules/fde_lookup.h"
#include "sampler/modules/rule_table.h"
#include "sampler/unwind/pc_cache.h"
#include "sampler/unwind/walk.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct module_entry {
  onstack_module module;
  uint64_t section_header;  /* .eh_frame_hdr, as loaded, or with `bare` .eh_frame; 0: none */
  uint64_t section_end;     /* of the segment that holds it, or with `bare` of the section */
  uint64_t data_high;       /* end of the last segment */
  uint64_t load;            /* the loader's number (platform/loader.h); 0: not known */
  uint64_t section;         /* .eh_frame, by its header; 0: not known */
  size_t section_bytes;     /* from there to the end of its segment; 0: there is none */
  uint32_t place;           /* in the loader's list */
  uint32_t from;            /* index in the previous list, plus 1; 0: it was not there */
  const char *name;         /* in the list's `names`, for the time of one look; NULL: of the previous list */
  uint32_t described;       /* addresses that were described one by one, */
  uint32_t describes_most;  /* until there are so many; 0: not known yet */
  onstack_fde_index *index; /* for them, owned; NULL: none was */
  bool tried, published, section_read;
  bool again; /* an object of this path was loaded before */
  bool bare;  /* there is no .eh_frame_hdr (sampler/modules/frame_section.h) */
} module_entry;

#define MODULES_RETRY_NS ((uint64_t)1000 * 1000 * 1000) /* between two attempts when memory is short */
#define MODULES_DESCRIBED_BYTES 1024u                   /* of .eh_frame become rows in the time that one address takes */
#define MODULES_AGAIN_SHARE 100u /* of a processor: at most a hundredth goes into tables of libraries that come again */
#define MODULES_ROOM 64u         /* entries in addition to those of the previous list */
#define MODULES_NAME_BYTES ((size_t)1 << 14) /* of the paths of new objects; more are asked for in a second pass */
#define MODULES_PASSES 4u                    /* over the loader's list, while it grows */
#define MODULES_PATHS UINT16_MAX             /* a module's number has 16 bits */

typedef struct module_order {
  uint64_t low;
  uint32_t index;
} module_order;

/* In the loader's order. */
typedef struct module_list {
  module_entry *entries;
  module_order *order; /* by address */
  uint32_t count, room;
  uint32_t length; /* of the loader's list */
  uint32_t stays;  /* objects before this place are never unloaded */
  onstack_loader_counts loaded;
  /* For the time of one look: */
  const struct module_list *old;
  uint32_t old_next; /* objects of `old` before this one were passed */
  uint32_t left_out; /* objects without room */
  char *names;       /* copies of what the loader calls new objects */
  size_t names_used, names_room, names_left_out;
} module_list;

/* Lock order: control lock, then this one; never together with the code map's. */
static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;
static module_list modules_known;
static bool modules_gone;         /* some were unloaded since the map was published */
static uint64_t modules_retry_ns; /* before that there is no memory for tables; monotonic */
static uint64_t modules_again_ns; /* before that no table of a library that came again is made unasked; monotonic */
static bool modules_moving;       /* tables are between two lists: a child of fork in this instant has neither */

/* Arrays for the handler's map, and their length. One that is not the current one is written next. */
static onstack_module modules_first_spare[ONSTACK_MODULES_FIRST];
static onstack_module *modules_arrays[2] = {modules_first_spare, NULL}; /* NULL: the one that the map begins with */
static uint32_t modules_room = ONSTACK_MODULES_FIRST;

/* Paths by number. Kept for ever: statistics name modules that were unloaded long ago. [0] is "no module". */
typedef struct module_path_entry {
  const char *path;
  uint32_t hash;
} module_path_entry;
static module_path_entry *modules_paths;
static uint32_t modules_path_count = 1, modules_path_room;

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
    if (low + segment->p_memsz > entry->data_high) entry->data_high = low + segment->p_memsz;
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
  if (size > list->names_room - list->names_used) {
    list->names_left_out += size;
    return "";
  }
  char *copy = list->names + list->names_used;
  memcpy(copy, name, size);
  list->names_used += size;
  return copy;
}

/* The same object in the previous list, by its number. Objects that are in both are in the same order. */
static const module_entry *module_of_old(module_list *list, uint64_t load) {
  for (uint32_t i = list->old_next; load != 0 && list->old && i < list->old->count; i++) {
    if (list->old->entries[i].load != load) continue;
    list->old_next = i + 1;
    return &list->old->entries[i];
  }
  return NULL;
}

/* The loader itself, and the object of this code: neither is unloaded while a session runs. */
static bool module_stays(const module_entry *entry, uint64_t bias) {
  const uint64_t here = (uint64_t)(uintptr_t)&modules_known - entry->module.base;
  return (bias != 0 && bias == getauxval(AT_BASE)) || here < entry->data_high - entry->module.base;
}

/* Copies only: a slow callback would hold the loader's lock and block dlopen elsewhere. */
static int module_copy(const struct dl_phdr_info *info, uint64_t load, void *data) {
  module_list *list = data;
  list->loaded = onstack_loader_counts_in(info);
  list->length++;
  if (list->count == list->room) {
    list->left_out++;
    return 0;
  }
  module_entry *entry = &list->entries[list->count++];
  const module_entry *known = module_of_old(list, load);
  if (known) {
    *entry = *known;
    entry->from = list->old_next;
    entry->name = NULL;
  } else {
    onstack_object_copy copy;
    onstack_object_copy_headers(info, &copy);
    memset(entry, 0, sizeof(*entry));
    module_note_segments(entry, &copy.info);
    entry->load = load;
    entry->name = module_copy_name(list, info->dlpi_name);
  }
  entry->place = list->length - 1;
  if (module_stays(entry, info->dlpi_addr)) list->stays = list->length;
  return 0;
}

/* .eh_frame's address from its header (LSB 10.6.2): version 1, then the encoding, which linkers write as pcrel sdata4. */
static uint64_t module_section_address(const module_entry *entry) {
  uint8_t head[8];
  int32_t relative;
  if (entry->bare) return entry->section_header;
  if (onstack_process_memory_copy(entry->section_header, head, sizeof(head)) != sizeof(head)) return 0;
  if (head[0] != 1 || head[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4)) return 0;
  memcpy(&relative, head + 4, sizeof(relative));
  return entry->section_header + 4 + (uint64_t)(int64_t)relative;
}

/* What has to be read for a module's table: from .eh_frame to the end of its segment. 0: nothing there. A header may lead
   anywhere within 2 GiB; memory before the object is not its own. */
static size_t module_section_size(module_entry *entry, uint64_t *address) {
  if (!entry->section_read) {
    entry->section = module_section_address(entry);
    const bool inside = entry->section >= entry->module.base && entry->section < entry->section_end;
    entry->section_bytes = entry->section != 0 && inside ? entry->section_end - entry->section : 0;
    entry->section_read = true;
  }
  *address = entry->section;
  return entry->section_bytes;
}

/* Fills in the table; NULL: there are no rules. Errors: -ENOMEM. */
static int module_derive(module_entry *entry) {
  uint64_t address;
  size_t size = module_section_size(entry, &address);
  if (size == 0) return 0;
  uint8_t *copy = malloc(size);
  if (!copy) return -ENOMEM;
  onstack_cfi_section section = {
      .bytes = copy, .size = onstack_process_memory_copy(address, copy, size), .address = address};
  const int error = onstack_rule_table_derive(&section, entry->module.base, entry->module.high, &entry->module.table);
  free(copy);
  return error;
}

/* Under the lock from here on. */

static int module_compare(const void *left, const void *right) {
  const module_order *a = left, *b = right;
  return a->low < b->low ? -1 : a->low > b->low;
}

/* Numbers of the map's states are told older from newer by the sign of their difference, and come round: one that is far back
   is moved up, where it is still older than that of any sample on its way. */
#define MODULES_FAR (1u << 30)
static uint32_t modules_moved_up(uint32_t since, uint32_t next) {
  return next - since > MODULES_FAR ? next - MODULES_FAR : since;
}

/* Without memory the arrays stay as they are. The former ones stay mapped: a handler may be reading them. */
static void modules_make_room(uint32_t count) {
  uint32_t room = modules_room;
  while (room < count && room <= UINT32_MAX / 2) room *= 2;
  const size_t bytes = (size_t)room * sizeof(onstack_module) * 2;
  onstack_module *both = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (both == MAP_FAILED) return;
  onstack_own_memory_changes((int64_t)bytes);
  modules_arrays[0] = both;
  modules_arrays[1] = both + room;
  onstack_publish(&modules_room, room); /* last: the child of a fork in between has the shorter length */
}

static void modules_publish(void) {
  uint32_t count = 0, left_out = modules_known.left_out;
  if (modules_known.count > modules_room) modules_make_room(modules_known.count);
  if (!modules_arrays[1]) modules_arrays[1] = onstack_modules.modules;
  onstack_module *const to = modules_arrays[onstack_modules.modules == modules_arrays[0]];
  const uint32_t next = onstack_load_relaxed(&onstack_modules.lock.sequence) + 2;
  /* A handler that has read any of what follows, in an array that it found two changes ago, sees that the sequence number is
     another one by now. */
  onstack_fence_publish();
  for (uint32_t i = 0; i < modules_known.count; i++) {
    module_entry *entry = &modules_known.entries[modules_known.order[i].index];
    onstack_module *from = &entry->module;
    from->since = entry->published ? modules_moved_up(from->since, next) : next;
    entry->published = true;
    if (from->high == 0) continue;                             /* an object without code */
    if (count > 0 && from->low < to[count - 1].high) continue; /* overlapping extents: never from a loader */
    if (count == modules_room) {
      left_out++;
      continue;
    }
    onstack_store_relaxed(&to[count].low, from->low);
    onstack_store_relaxed(&to[count].high, from->high);
    onstack_store_relaxed(&to[count].base, from->base);
    onstack_store_relaxed(&to[count].table, from->table);
    onstack_store_relaxed(&to[count].since, from->since);
    onstack_store_relaxed(&to[count].number, from->number);
    onstack_store_relaxed(&to[count].pending, (uint16_t)(entry->section_header && !entry->tried));
    count++;
  }
  onstack_seqlock_write_begin(&onstack_modules.lock); /* a handler is refused for some instructions only */
  onstack_store_relaxed(&onstack_modules.modules, to);
  onstack_store_relaxed(&onstack_modules.count, count);
  onstack_store_relaxed(&onstack_modules.left_out, left_out);
  onstack_store_relaxed(&onstack_modules.gone, modules_gone ? next : modules_moved_up(onstack_modules.gone, next));
  modules_gone = false;
  /* In between: a handler with the new epoch finds what the new map names, or nothing yet; one that has seen the new
     sequence number has the new epoch as well, and remembers nothing of before. */
  onstack_dekker_add(&onstack_pc_epoch, (uint64_t)1);
  onstack_seqlock_write_end(&onstack_modules.lock);
}

static void modules_retire(const onstack_rule_table *table) {
  /* With no room left the table stays mapped: a leak of a few hundred KiB rather than a wait. */
  if (table && modules_retired_count < MODULES_RETIRED) modules_retired[modules_retired_count++] = table;
}

static bool module_is_same(const module_entry *a, const module_entry *b) {
  return a->module.low == b->module.low && a->module.high == b->module.high && a->module.base == b->module.base &&
         (a->bare || b->bare || a->section_header == b->section_header);
}

/*
 * How many of the loader's objects are certainly those of the last look. Loaders append, and count what they append
 * (glibc, elf/dl-object.c, _dl_add_to_namespace_list; musl unloads nothing): with n of them loaded since, whatever is not
 * among the last n has been there all the time. So has all that precedes an object that is never unloaded. Extents do not
 * tell: another library may come to lie where one was, with the same extents, and go again before the next look.
 */
static uint32_t modules_unmoved(const module_list *old, const module_list *fresh) {
  if (fresh->loaded.subs == old->loaded.subs) return UINT32_MAX; /* nothing has gone, so nothing came in its place */
  const uint64_t loaded = fresh->loaded.adds - old->loaded.adds;
  const uint32_t certain = loaded < fresh->length ? fresh->length - (uint32_t)loaded : 0;
  return certain > fresh->stays ? certain : fresh->stays;
}

/* The program itself has no name with the loader. */
static const char *module_path(const module_entry *entry, char buffer[4096]) {
  if (entry->name[0] != 0 || entry->place != 0) return entry->name;
  ssize_t length = readlink(onstack_own_executable(), buffer, 4095);
  buffer[length > 0 ? length : 0] = 0;
  return buffer;
}

/* *again: the path is known already. */
static uint32_t module_number(const char *path, bool *again) {
  uint32_t hash = 5381;
  for (const char *at = path; *at; at++) hash = hash * 33 + (uint8_t)*at;
  *again = path[0] != 0;
  if (path[0] == 0) return 0;
  for (uint32_t i = 1; i < modules_path_count; i++)
    if (modules_paths[i].hash == hash && strcmp(modules_paths[i].path, path) == 0) return i;
  *again = false;
  if (modules_path_count >= modules_path_room && modules_path_count < MODULES_PATHS) {
    const uint32_t room = modules_path_room ? modules_path_room * 2 : MODULES_ROOM;
    module_path_entry *grown = realloc(modules_paths, room * sizeof(*grown));
    if (!grown) return 0;
    modules_paths = grown;
    modules_path_room = room;
  }
  char *copy = modules_path_count < MODULES_PATHS ? strdup(path) : NULL;
  if (!copy) return 0;
  modules_paths[modules_path_count] = (module_path_entry){copy, hash};
  return modules_path_count++;
}

/* The same object in the previous list, where the loader gives no numbers: one that has not moved. */
static uint32_t module_unmoved_of_old(const module_list *fresh, const module_entry *entry, uint32_t *next) {
  for (uint32_t k = *next; k < fresh->old->count; k++) {
    const module_entry *other = &fresh->old->entries[k];
    if ((entry->load != 0 && other->load != 0) || !module_is_same(entry, other)) continue;
    *next = k + 1;
    return k + 1;
  }
  return 0;
}

/* Finds the objects that are in both lists. */
static void modules_compare(module_list *fresh) {
  const uint32_t unmoved = modules_unmoved(fresh->old, fresh);
  uint32_t next = 0;
  for (uint32_t i = 0; i < fresh->count; i++) {
    module_entry *entry = &fresh->entries[i];
    if (entry->from == 0 && entry->place < unmoved) {
      entry->from = module_unmoved_of_old(fresh, entry, &next);
      if (entry->from == 0) continue;
      const uint32_t place = entry->place;
      const uint64_t load = entry->load;
      const char *name = entry->name;
      *entry = fresh->old->entries[entry->from - 1];
      entry->from = next;
      entry->place = place;
      entry->load = load;
      entry->name = name;
    }
  }
}

static void modules_name(module_list *fresh) {
  char buffer[4096];
  for (uint32_t i = 0; i < fresh->count; i++) {
    module_entry *entry = &fresh->entries[i];
    if (entry->from == 0) {
      const char *path = module_path(entry, buffer);
      entry->module.number = (uint16_t)module_number(path, &entry->again);
      if (entry->section_header == 0)
        entry->bare = onstack_frame_section_find(path, entry->module.base, &entry->section_header, &entry->section_end);
    }
    entry->name = NULL;
  }
}

static void modules_sort(module_list *fresh) {
  for (uint32_t i = 0; i < fresh->count; i++) fresh->order[i] = (module_order){fresh->entries[i].module.low, i};
  qsort(fresh->order, fresh->count, sizeof(*fresh->order), module_compare);
}

/* Takes the new list over, with the tables of the objects that are in both. */
static void modules_take_over(module_list *fresh) {
  module_list old = modules_known;
  modules_compare(fresh);
  modules_name(fresh);
  modules_sort(fresh);
  onstack_publish(&modules_moving, true);
  for (uint32_t i = 0; i < fresh->count; i++) {
    module_entry *entry = &fresh->entries[i];
    if (entry->from == 0) continue;
    old.entries[entry->from - 1].module.table = NULL;
    old.entries[entry->from - 1].index = NULL;
  }
  modules_known = *fresh;
  modules_known.names = NULL; /* freed when the look is over */
  modules_known.old = NULL;
  modules_gone = fresh->loaded.subs != old.loaded.subs;
  onstack_store_relaxed(&onstack_modules.loads, onstack_modules.loads + 1); /* before the map says who is there now */
  modules_publish();
  onstack_publish(&modules_moving, false);
  for (uint32_t k = 0; k < old.count; k++) {
    modules_retire(old.entries[k].module.table);
    free(old.entries[k].index);
  }
  free(old.entries);
  free(old.order);
}

typedef struct module_others {
  module_list *list;
  uint32_t named; /* entries that the loader told of */
} module_others;

static void module_add_other(void *data, struct dl_phdr_info *object) {
  const module_others *others = data;
  module_list *list = others->list;
  const uint32_t before = list->count;
  object->dlpi_adds = list->loaded.adds;
  object->dlpi_subs = list->loaded.subs;
  module_copy(object, 0, list);
  for (uint32_t i = 0; i < others->named && list->count > before; i++)
    if (list->entries[i].module.low == list->entries[before].module.low) list->count = before;
}

/*
 * The loader's counters are those of all namespaces (glibc, elf/dl-object.c), its list is that of our own: with more loaded
 * than listed there are others.
 */
static void modules_add_others(module_list *fresh) {
  const int64_t loaded = (int64_t)(fresh->loaded.adds - fresh->loaded.subs);
  if (loaded <= (int64_t)fresh->length) return;
  module_others others = {fresh, fresh->count};
  const uint32_t length = fresh->length, stays = fresh->stays;
  onstack_other_objects_each(onstack_process_memory_copy, module_add_other, &others);
  fresh->length = length;
  fresh->stays = stays;
}

/* Room for so many entries; false: no memory, and the list is as it was. */
static bool modules_reserve(module_list *list, uint32_t room, size_t names_room) {
  module_entry *entries = realloc(list->entries, room * sizeof(*entries));
  if (entries) list->entries = entries;
  module_order *order = realloc(list->order, room * sizeof(*order));
  if (order) list->order = order;
  if (!entries || !order) return false;
  list->room = room;
  char *names = realloc(list->names, names_room);
  if (!names) return false;
  list->names = names;
  list->names_room = names_room;
  return true;
}

/* The loader's list as it is now; false: no memory. */
static bool modules_list(module_list *fresh) {
  uint32_t room = modules_known.count + MODULES_ROOM;
  size_t names_room = MODULES_NAME_BYTES;
  for (uint32_t i = 0; i < MODULES_PASSES && modules_reserve(fresh, room, names_room); i++) {
    fresh->count = fresh->length = fresh->stays = fresh->old_next = fresh->left_out = 0;
    fresh->names_used = fresh->names_left_out = 0;
    onstack_loader_each_load(module_copy, fresh);
    modules_add_others(fresh);
    if (fresh->left_out == 0 && fresh->names_left_out == 0) break;
    room += fresh->left_out + MODULES_ROOM;
    names_room += fresh->names_left_out + MODULES_NAME_BYTES;
  }
  return fresh->length > 0;
}

/* Without memory for a list any address may belong to an object that is not in the map. */
static void modules_miss(void) {
  onstack_seqlock_write_begin(&onstack_modules.lock);
  onstack_store_relaxed(&onstack_modules.left_out, onstack_modules.left_out + 1);
  onstack_seqlock_write_end(&onstack_modules.lock);
}

static void modules_look(void) {
  onstack_loader_counts now;
  if (!onstack_loader_count(&now)) return;
  if (modules_known.entries && onstack_loader_same(&now, &modules_known.loaded)) return;
  module_list fresh = {.old = &modules_known};
  if (modules_list(&fresh)) {
    modules_take_over(&fresh);
  } else {
    modules_miss();
    free(fresh.entries);
    free(fresh.order);
  }
  free(fresh.names);
}

const char *onstack_modules_path(uint32_t number) {
  pthread_mutex_lock(&modules_lock);
  const char *path = number > 0 && number < modules_path_count ? modules_paths[number].path : "";
  pthread_mutex_unlock(&modules_lock);
  return path;
}

/* Whether a table is to be made before a walk has asked for it. A library that is opened and closed all the time would be
   derived each time; meanwhile its rules are found one by one. */
static bool module_is_due(const module_entry *entry, uint64_t now) {
  return !entry->tried && entry->section_header && (!entry->again || now >= modules_again_ns);
}

/* The smallest section that is due; NULL: none is. */
static module_entry *modules_next(size_t *size) {
  const uint64_t now = onstack_monotonic_ns();
  module_entry *next = NULL;
  for (uint32_t i = 0; i < modules_known.count; i++) {
    module_entry *entry = &modules_known.entries[i];
    uint64_t address;
    if (!module_is_due(entry, now)) continue;
    size_t bytes = module_section_size(entry, &address);
    if (!next || bytes < *size) {
      next = entry;
      *size = bytes;
    }
  }
  return next;
}

static bool modules_miss_tables(void) {
  const uint64_t now = onstack_monotonic_ns();
  for (uint32_t i = 0; i < modules_known.count; i++)
    if (module_is_due(&modules_known.entries[i], now)) return true;
  return false;
}

static bool (*readers_left)(void); /* NULL: no session has begun yet */

void onstack_readers_are_asked_by(bool (*left)(void)) { onstack_publish(&readers_left, left); }

bool onstack_readers_have_left(void) {
  bool (*const left)(void) = onstack_observe(&readers_left);
  return !onstack_traceback_is_busy() && (!left || left());
}

static void modules_free_retired(void) {
  if (modules_retired_count == 0 || !onstack_readers_have_left()) return;
  /* Off the list first: the child of a fork in between gives up one table, where it would unmap it a second time. */
  while (modules_retired_count > 0) {
    const onstack_rule_table *table = modules_retired[modules_retired_count - 1];
    onstack_publish(&modules_retired_count, modules_retired_count - 1);
    onstack_rule_table_free(table);
  }
}

/* The child of a fork in between has one that nobody frees, and no freed one. */
static void module_free_index(module_entry *entry) {
  onstack_fde_index *index = entry->index;
  onstack_publish(&entry->index, (onstack_fde_index *)NULL);
  free(index);
}

/* A table is read out of memory that another library may take meanwhile. So the loader is asked again before anybody has the
   table, which goes with its entry if that one is not there any more. False: something has come or gone, and `entry` may be
   another one by now. */
static bool module_try(module_entry *entry) {
  const onstack_loader_counts loaded = modules_known.loaded;
  const uint64_t before = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  entry->tried = module_derive(entry) == 0;
  const uint64_t took = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
  if (entry->again) modules_again_ns = onstack_monotonic_ns() + took * MODULES_AGAIN_SHARE;
  if (entry->tried) module_free_index(entry);
  if (!entry->tried) modules_retry_ns = onstack_monotonic_ns() + MODULES_RETRY_NS;
  modules_look();
  return onstack_loader_same(&modules_known.loaded, &loaded);
}

static bool modules_have_memory(void) { return modules_retry_ns == 0 || onstack_monotonic_ns() >= modules_retry_ns; }

static module_entry *modules_entry_of(uint64_t address) {
  for (uint32_t i = 0; i < modules_known.count; i++) {
    module_entry *entry = &modules_known.entries[i];
    if (address - entry->module.low < entry->module.high - entry->module.low) return entry;
  }
  return NULL;
}

static bool modules_derive_entry(module_entry *entry) {
  if (entry->tried || !entry->section_header || !modules_have_memory()) return true;
  const bool here = module_try(entry); /* or it has gone, and its neighbour stands here */
  modules_publish();
  return here;
}

bool onstack_modules_derive(uint64_t address) {
  pthread_mutex_lock(&modules_lock);
  module_entry *entry = modules_entry_of(address);
  const bool here = entry && modules_derive_entry(entry);
  pthread_mutex_unlock(&modules_lock);
  return here;
}

/* Whether the table would have taken longer than what was described without it. */
static bool module_is_worth_describing(module_entry *entry) {
  uint64_t address;
  if (entry->describes_most == 0) {
    const size_t most = module_section_size(entry, &address) / MODULES_DESCRIBED_BYTES;
    entry->describes_most = most < UINT32_MAX ? (uint32_t)most + 1 : UINT32_MAX;
  }
  return entry->described < entry->describes_most;
}

/* Whether the object is still there is asked behind the read, as in module_try. */
static bool module_describe(module_entry *entry, uint64_t address) {
  const onstack_loader_counts loaded = modules_known.loaded;
  const onstack_fde_source source = {entry->section_header, entry->module.base, entry->section_end};
  onstack_rule found;
  if (!entry->index) onstack_publish(&entry->index, (onstack_fde_index *)calloc(1, sizeof(*entry->index)));
  if (!entry->index || !onstack_fde_lookup(&source, entry->index, address, &found)) return false;
  const onstack_rule *rule = onstack_fde_intern(&found);
  if (!rule) return false;
  entry->described++;
  modules_look();
  if (!onstack_loader_same(&modules_known.loaded, &loaded)) return true;
  onstack_described_put(address, rule);
  return true;
}

bool onstack_modules_describe(uint64_t address) {
  pthread_mutex_lock(&modules_lock);
  module_entry *entry = modules_entry_of(address);
  bool here = entry ? true : false;
  if (entry && !entry->tried && entry->section_header &&
      !(module_is_worth_describing(entry) && module_describe(entry, address)))
    here = modules_derive_entry(entry);
  pthread_mutex_unlock(&modules_lock);
  return here;
}

bool onstack_modules_refresh(size_t budget_bytes) {
  size_t size = 0, spent = 0;
  module_entry *entry = NULL;
  bool derived = false;
  pthread_mutex_lock(&modules_lock);
  modules_look();
  while (budget_bytes > 0 && modules_have_memory() && (entry = modules_next(&size)) &&
         (spent == 0 || spent + size <= budget_bytes)) {
    spent += size + 1;
    derived = true;
    if (!module_try(entry)) break; /* what was retired is freed before there is more of it */
  }
  const bool missing = modules_have_memory() && modules_miss_tables();
  if (derived) modules_publish();
  modules_free_retired();
  pthread_mutex_unlock(&modules_lock);
  return missing;
}

void onstack_modules_after_fork(void) {
  modules_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  if (onstack_seqlock_after_fork(&onstack_modules.lock) || modules_moving) {
    onstack_seqlock_write_begin(&onstack_modules.lock);
    onstack_modules.count = 0;
    onstack_modules.left_out = 1;
    onstack_seqlock_write_end(&onstack_modules.lock);
    modules_moving = false;
    modules_known = (module_list){0}; /* its memory may be in any state; a few KiB are given up */
  }
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/go_runtime.h"

#include "platform/elf_file.h"
#include "platform/loader.h"
#include "platform/proc.h"
#include "platform/process.h"
#include "sampler/modules/modules.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/pc_cache.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

/* ---- loaded objects ------------------------------------------------------------------------------------------------------ */

/* The loaded objects, and where each has Go's sections by its file's section headers. */

#define GO_SEGMENTS 12u /* linkers write four to six */

typedef struct go_object {
  uint64_t bias;
  uint64_t load; /* the loader's number (platform/load_numbers.h); 0: not known */
  uint32_t segment_count;
  onstack_code_range segments[GO_SEGMENTS]; /* loaded and readable; between them may be holes that fault */
  bool is_program;                          /* the first one: it alone stays mapped whatever happens */
  char path[512];                           /* "" for the program */
} go_object;

typedef struct go_object_list {
  /* The caller's: objects with numbers up to this one were looked at before and are left out; 0: none was. */
  uint64_t looked;
  uint64_t live[ONSTACK_GO_RUNTIMES]; /* numbers of those whose presence is asked for; 0: none */
  /* The answer: */
  bool live_is_there[ONSTACK_GO_RUNTIMES];
  go_object *objects; /* the caller frees them */
  uint32_t count, room;
  uint32_t length;   /* of the loader's list */
  uint32_t left_out; /* objects that there was no memory for */
  uint64_t last;     /* the highest number */
  onstack_loader_counts loaded;
} go_object_list;

typedef struct go_sections {
  uint64_t pclntab, pclntab_size; /* loaded addresses; 0: none */
  uint64_t module, module_size;
} go_sections;

#define GO_ROOM 16u  /* objects beyond those of the last pass */
#define GO_PASSES 4u /* over the loader's list, while it grows */

/* Whether the object was looked at before; notes that it is there yet. */
static bool go_is_looked_at(go_object_list *list, uint64_t load) {
  if (load == 0 || load > list->looked) return false;
  for (uint32_t i = 0; i < ONSTACK_GO_RUNTIMES; i++) list->live_is_there[i] |= list->live[i] == load;
  return true;
}

/* Copies only: a slow callback would hold the loader's lock and block dlopen elsewhere. */
static int go_copy_object(const struct dl_phdr_info *info, uint64_t load, void *data) {
  go_object_list *list = data;
  onstack_object_copy copy;
  const bool is_program = list->length++ == 0;
  list->loaded = onstack_loader_counts_in(info);
  if (load > list->last) list->last = load;
  if (go_is_looked_at(list, load)) return 0;
  if (list->count == list->room) {
    list->left_out++;
    return 0;
  }
  go_object *object = &list->objects[list->count];
  onstack_object_copy_headers(info, &copy);
  object->bias = info->dlpi_addr;
  object->load = load;
  object->segment_count = 0;
  for (uint32_t i = 0; i < copy.info.dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &copy.headers[i];
    if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_R) || object->segment_count == GO_SEGMENTS) continue;
    uint64_t low = info->dlpi_addr + segment->p_vaddr;
    object->segments[object->segment_count++] = (onstack_code_range){low, low + segment->p_memsz};
  }
  object->is_program = is_program;
  object->path[0] = 0;
  if (info->dlpi_name && strlen(info->dlpi_name) < sizeof(object->path)) strcpy(object->path, info->dlpi_name);
  list->count++;
  return 0;
}

static void go_note_section(go_sections *sections, const char *name, const onstack_elf_section *section, uint64_t bias) {
  if (strcmp(name, ".gopclntab") == 0 || strcmp(name, ".data.rel.ro.gopclntab") == 0) {
    sections->pclntab = bias + section->vaddr;
    sections->pclntab_size = section->bytes;
  } else if (strcmp(name, ".go.module") == 0 || strcmp(name, ".data.rel.ro.go.module") == 0) {
    sections->module = bias + section->vaddr;
    sections->module_size = section->bytes;
  }
}

/* 0 if the object has Go's function table. Reads its file, which may be another one by now. Errors: -errno; -ENOMEM, where
   that cannot be told. */
static int go_object_sections(const go_object *object, go_sections *sections) {
  onstack_elf_file file;
  char name[32];
  memset(sections, 0, sizeof(*sections));
  int error = onstack_elf_open_file(&file, object->path[0] ? object->path : onstack_own_executable());
  /* No /proc: as it was started. Whatever lies there now, tables are taken only where they are in memory. */
  const char *started = (const char *)(uintptr_t)getauxval(AT_EXECFN);
  if (error != 0 && !object->path[0] && started) error = onstack_elf_open_file(&file, started);
  if (error != 0) return error;
  for (uint32_t i = 0; i < file.section_count; i++) {
    if (!(file.sections[i].flags & ONSTACK_ELF_SECTION_ALLOCATED)) continue;
    onstack_elf_section_name(&file, &file.sections[i], name, sizeof(name));
    go_note_section(sections, name, &file.sections[i], object->bias);
  }
  onstack_elf_close(&file);
  return sections->pclntab != 0 ? 0 : -ENOENT;
}

/* True if all of it lies in one loaded segment. */
static bool go_object_holds(const go_object *object, uint64_t address, uint64_t size) {
  for (uint32_t i = 0; i < object->segment_count; i++) {
    const onstack_code_range *segment = &object->segments[i];
    if (address >= segment->low && address <= segment->high && size <= segment->high - address) return true;
  }
  return false;
}

static void go_add_other(void *data, struct dl_phdr_info *info) {
  go_object_list *list = data;
  for (uint32_t i = 0; i < list->count; i++)
    if (list->objects[i].bias == info->dlpi_addr) return;
  info->dlpi_adds = list->loaded.adds;
  info->dlpi_subs = list->loaded.subs;
  go_copy_object(info, 0, list);
}

/* More loaded, in all namespaces, than listed, of our own: see sampler/modules/modules.c. */
static bool go_has_others(const go_object_list *list) {
  return (int64_t)(list->loaded.adds - list->loaded.subs) > (int64_t)list->length;
}

static void go_list_own(go_object_list *list) {
  list->count = list->length = list->left_out = 0;
  list->last = 0;
  memset(list->live_is_there, 0, sizeof(list->live_is_there));
  onstack_loader_each_load(go_copy_object, list);
}

static void go_list_all(go_object_list *list) {
  go_list_own(list);
  if (!go_has_others(list)) return;
  if (list->looked != 0) { /* what a whole list of our own lacks belongs to the others */
    list->looked = 0;
    go_list_own(list);
  }
  onstack_other_objects_each(onstack_process_memory_copy, go_add_other, list);
}

/* Fills in the objects. */
static void go_objects_list(go_object_list *list) {
  for (uint32_t pass = 0; pass < GO_PASSES; pass++) {
    go_list_all(list);
    if (list->left_out == 0) return;
    const uint32_t room = list->count + list->left_out + GO_ROOM;
    go_object *objects = realloc(list->objects, room * sizeof(*objects));
    if (!objects) return;
    list->objects = objects;
    list->room = room;
  }
}

/* ---- runtimes ------------------------------------------------------------------------------------------------------------ */

/* moduledata in words (runtime/symtab.go, Go 1.18 to 1.26), from 0 pcHeader on. The section .go.module holds it. */
#define GO_MODULE_PCTAB 10
#define GO_MODULE_PCLNTABLE 13
#define GO_MODULE_TEXT 22
#define GO_MODULE_ETEXT 23

/*
 * What belongs to an entry of onstack_code.go. Go marks its libraries as never to be unloaded, but one whose dlopen fails
 * (a symbol is missing) is listed for a moment like any other, and unmapped. So all but the program itself are read by
 * copies, handlers get a copy of the tables that is ours, and an entry whose object is gone is retired.
 *
 * Free: !used. Live: used, and text.high is not 0. Retired: used, and text.high is 0; free when no handler can have it.
 * Written in this order, so that the child of a fork at any instant finds one of the three, and loses a copy at worst.
 */
#define GO_WITNESS 128u

typedef struct go_entry {
  bool used;
  bool is_library; /* built to be one (c-archive, c-shared), though it may lie in the program's file */
  uint8_t *copy;   /* NULL: the program's own tables, where they lie */
  uint64_t bias;
  uint64_t load;                 /* the loader's number of the object; 0: not known */
  uint64_t pclntab, functab_end; /* loaded addresses */
  uint8_t witness[GO_WITNESS];
} go_entry;

static go_entry go_entries[ONSTACK_GO_RUNTIMES]; /* this and what follows: under the map lock */
static onstack_loader_counts go_seen;
static bool go_seen_any;
static uint64_t go_looked; /* objects with numbers up to this one have been looked at */

/* While an object is being opened, its module data are there before they are relocated, and prove nothing: it is looked
   at again, so many times, until it can be read. */
#define GO_LOOKS 50u
static uint32_t go_looks;

/*
 * Functions that run on another stack than their caller. Those of the second kind begin with push rbp; mov rbp, rsp, so
 * their record stays on the caller's stack and the saved frame pointer leads back to it (runtime/asm_amd64.s,
 * runtime/sys_linux_amd64.s).
 */
static const struct {
  const char *name;
  uint32_t kind;
} go_special_names[] = {
    {"runtime.asmcgocall", ONSTACK_GO_BY_G},
    {"runtime.systemstack", ONSTACK_GO_BY_FP},
    {"runtime.cgocallback", ONSTACK_GO_BY_FP},
    {"runtime.nanotime1", ONSTACK_GO_BY_FP},
    {"time.now", ONSTACK_GO_BY_FP},
    {"runtime.walltime", ONSTACK_GO_BY_FP},
    {"runtime.vgetrandom1", ONSTACK_GO_BY_FP},
    {"runtime.callCgoSigaction", ONSTACK_GO_BY_FP},
    {"runtime.callCgoMmap", ONSTACK_GO_BY_FP},
    {"runtime.callCgoMunmap", ONSTACK_GO_BY_FP},
    {"crosscall2", ONSTACK_GO_CROSSCALL2},
    {"runtime.asyncPreempt", ONSTACK_GO_EXACT},
    {"runtime.sigpanic", ONSTACK_GO_EXACT},
    {"runtime.sigpanic0", ONSTACK_GO_EXACT},
    {"runtime.debugCallV2", ONSTACK_GO_EXACT},
    {"runtime.goexit", ONSTACK_GO_ROOT},
    {"runtime.mstart", ONSTACK_GO_ROOT},
    {"runtime.rt0_go", ONSTACK_GO_ROOT},
    {"runtime.mcall", ONSTACK_GO_LEAVES},
    {"gogo", ONSTACK_GO_RESUMES},
    {"racecall", ONSTACK_GO_LOST},
    {"asancall", ONSTACK_GO_LOST},
    {"msancall", ONSTACK_GO_LOST},
    {"runtime.schedule", ONSTACK_GO_SCHEDULES},
    {"runtime.switchToCrashStack0", ONSTACK_GO_LOST},
};

static bool go_notes_library; /* of the table that is being looked through; under the map lock */

static bool go_find_kind(const char *name, uint32_t *kind) {
  for (size_t i = 0; i < ONSTACK_COUNT_OF(go_special_names); i++) {
    if (strcmp(name, go_special_names[i].name) != 0) continue;
    *kind = go_special_names[i].kind;
    return true;
  }
  *kind = ONSTACK_GO_GROWS;
  return onstack_go_layout_grows(name);
}

static void go_note_function(void *data, const char *name, uint64_t low, uint64_t high) {
  onstack_go_runtime *go = data;
  uint32_t kind;
  /* The entry of Go as a library (runtime/rt0_linux_amd64.s and its like) is linked into nothing else. */
  if (strncmp(name, "_rt0_", 5) == 0 && strstr(name, "_linux_lib")) go_notes_library = true;
  if (low < go->text.low || high > go->text.high) return; /* its code will be read */
  if (strncmp(name, "runtime.", 8) != 0 && !strchr("acgmrt", name[0])) return;
  if (go->special_count == ONSTACK_GO_SPECIALS || !go_find_kind(name, &kind)) return;
  go->specials[go->special_count++] = (onstack_go_special){{low, high}, kind, 0};
  if (go->span.high == 0 || low < go->span.low) go->span.low = low;
  if (high > go->span.high) go->span.high = high;
}

/* What tells objects apart that lie at the same place one after the other: the table's header has the number of functions
   and where its parts begin, the last functions' entries move with all code before them. Both lie in the table. */
static size_t go_fetch_witness(const go_entry *entry, uint8_t out[GO_WITNESS]) {
  size_t got = onstack_process_memory_copy(entry->pclntab, out, GO_WITNESS / 2);
  return got + onstack_process_memory_copy(entry->functab_end - GO_WITNESS / 2, out + GO_WITNESS / 2, GO_WITNESS / 2);
}

static bool go_is_same(const go_entry *entry) {
  uint8_t now[GO_WITNESS];
  return go_fetch_witness(entry, now) == GO_WITNESS && memcmp(now, entry->witness, GO_WITNESS) == 0;
}

/* go_count is at most ONSTACK_GO_RUNTIMES, which a compiler that inlines this cannot know: without the comparison gcc 12 warns
   of a write beyond the array at -O3. */
static bool go_is_live(uint32_t index) {
  return index < ONSTACK_GO_RUNTIMES && onstack_load_relaxed(&onstack_code.go[index].text.high) != 0;
}

static bool go_is_there(uint32_t index, const go_object_list *list) {
  const go_entry *entry = &go_entries[index];
  if (list->live_is_there[index]) return true;
  for (uint32_t i = 0; i < list->count; i++) {
    const go_object *object = &list->objects[i];
    if (object->load != 0 && entry->load != 0 && object->load != entry->load) continue;
    if (object->bias == entry->bias && go_object_holds(object, entry->pclntab, entry->functab_end - entry->pclntab))
      return go_is_same(entry);
  }
  return list->left_out > 0; /* perhaps */
}

static void go_retire(uint32_t index) {
  onstack_go_runtime *go = &onstack_code.go[index];
  onstack_store_relaxed(&go->layout.g_labels, 0u);
  onstack_publish(&go->text.high, (uint64_t)0);
  /* After the range: a handler with the new epoch finds nothing of it. */
  onstack_dekker_add(&onstack_pc_epoch, (uint64_t)1);
}

/* Whether there were any: an object that found no free entry may get one. */
static bool go_retire_missing(const go_object_list *list) {
  bool retired = false;
  for (uint32_t i = 0; i < onstack_code.go_count; i++) {
    if (!go_entries[i].copy || !go_is_live(i) || go_is_there(i, list)) continue;
    go_retire(i);
    retired = true;
  }
  return retired;
}

/* Gives back what is retired, once every handler that may have found it has left. */
static void go_free_retired(void) {
  bool idle = false;
  for (uint32_t i = 0; i < onstack_code.go_count; i++) {
    go_entry *entry = &go_entries[i];
    if (!entry->used || go_is_live(i)) continue;
    if (!idle && !onstack_readers_have_left()) return;
    idle = true;
    uint8_t *copy = entry->copy;
    entry->copy = NULL; /* the child of a fork in between gives up the copy, where it would free it a second time */
    onstack_fence_publish();
    entry->used = false;
    free(copy);
  }
}

/* The index of an entry that nobody uses; ONSTACK_GO_RUNTIMES: none, *soon if one is about to be. */
static uint32_t go_free_entry(bool *soon) {
  *soon = false;
  for (uint32_t i = 0; i < ONSTACK_GO_RUNTIMES; i++) {
    if (!go_entries[i].used) return i;
    *soon = *soon || !go_is_live(i);
  }
  return ONSTACK_GO_RUNTIMES;
}

/* Where text begins and ends: from moduledata where it proves to be one, else from the table's own header. */
static bool go_find_text(const go_object *object, const go_sections *sections, onstack_go_pclntab *table,
                         onstack_code_range *text) {
  uint64_t module[GO_MODULE_ETEXT + 1];
  if (sections->module && sections->module % 8 == 0 && sections->module_size >= sizeof(module) &&
      go_object_holds(object, sections->module, sections->module_size) &&
      onstack_process_memory_copy(sections->module, module, sizeof(module)) == sizeof(module) &&
      module[0] == sections->pclntab && module[GO_MODULE_PCTAB] == sections->pclntab + table->pc_values &&
      module[GO_MODULE_PCLNTABLE] == sections->pclntab + table->functions) {
    table->text = module[GO_MODULE_TEXT];
    *text = (onstack_code_range){module[GO_MODULE_TEXT], module[GO_MODULE_ETEXT]};
  } else {
    uint32_t end;
    memcpy(&end, table->base + table->functions + table->function_count * 8, sizeof(end));
    *text = (onstack_code_range){table->text, table->text + end};
  }
  return text->low < text->high && go_object_holds(object, text->low, text->high - text->low);
}

/* What handlers need of a copied table lies behind the names, which are half of it: the copy becomes that part. */
static uint8_t *go_keep_tail(uint8_t *copy, const onstack_go_pclntab *table, onstack_go_functions *functions) {
  uint64_t from = table->pc_values < table->functions ? table->pc_values : table->functions;
  memmove(copy, copy + from, table->size - from);
  uint8_t *kept = realloc(copy, table->size - from);
  if (!kept) kept = copy;
  functions->functab = functions->functions = kept + (table->functions - from);
  functions->pctab = kept + (table->pc_values - from);
  functions->end = kept + (table->size - from);
  return kept;
}

/* The entry of a table that was opened; `copy` is the table's memory, NULL: it stays where it is. False: it cannot be. */
static bool go_enter(uint32_t index, const go_object *object, const go_sections *sections, onstack_go_pclntab *table,
                     uint8_t *copy) {
  onstack_go_runtime go;
  memset(&go, 0, sizeof(go));
  if (!go_find_text(object, sections, table, &go.text)) return false;
  go.functions = (onstack_go_functions){table->base + table->functions,
                                        table->base + table->functions,
                                        table->base + table->pc_values,
                                        table->base + table->size,
                                        table->text,
                                        (uint32_t)table->function_count,
                                        table->quantum};
  go_notes_library = false;
  onstack_go_pclntab_each(table, go_note_function, &go);
  onstack_go_layout_read(&go);
  const uint64_t functab_end = table->functions + table->function_count * 8 + 4;
  go_entry entry = {.used = true,
                    .is_library = go_notes_library,
                    .bias = object->bias,
                    .load = object->load,
                    .pclntab = sections->pclntab,
                    .functab_end = sections->pclntab + functab_end};
  memcpy(entry.witness, table->base, GO_WITNESS / 2);
  memcpy(entry.witness + GO_WITNESS / 2, table->base + functab_end - GO_WITNESS / 2, GO_WITNESS / 2);
  if (copy) entry.copy = go_keep_tail(copy, table, &go.functions);
  const uint64_t high = go.text.high;
  go.text.high = 0;
  go_entries[index] = entry;
  onstack_code.go[index] = go; /* of a free entry nobody looks at more than text.high, which stays 0 */
  if (index >= onstack_code.go_count) onstack_publish(&onstack_code.go_count, index + 1);
  onstack_publish(&onstack_code.go[index].text.high, high); /* both pair with the observes in code_map_handler.c */
  /* What a handler remembers of this code is from before: described by nothing. */
  onstack_dekker_add(&onstack_pc_epoch, (uint64_t)1);
  return true;
}

/* False: it has Go's tables, or may have them, but they could not be read. */
static bool go_inspect_object(const go_object *object) {
  go_sections sections;
  onstack_go_pclntab table;
  bool soon;
  const int error = go_object_sections(object, &sections);
  if (error != 0) return error != -ENOMEM;
  for (uint32_t i = 0; i < onstack_code.go_count; i++)
    if (go_is_live(i) && go_object_holds(object, onstack_code.go[i].text.low, 1)) return true;
  const uint32_t index = go_free_entry(&soon);
  if (index == ONSTACK_GO_RUNTIMES) return !soon;
  if (!go_object_holds(object, sections.pclntab, sections.pclntab_size)) return true;
  const size_t size = sections.pclntab_size;
  const void *base = (const void *)(uintptr_t)sections.pclntab;
  uint8_t *copy = NULL;
  if (!object->is_program) {
    if (!(base = copy = malloc(size))) return false;
    if (onstack_process_memory_copy(sections.pclntab, copy, size) != size) {
      free(copy);
      return false;
    }
  }
  if (onstack_go_pclntab_open(&table, base, size) && go_enter(index, object, &sections, &table, copy)) return true;
  free(copy);
  return false;
}

void onstack_go_runtime_refresh(void) {
  go_object_list list = {.looked = go_looked};
  go_free_retired();
  if (!onstack_loader_count(&list.loaded)) return;
  if (go_seen_any && onstack_loader_same(&list.loaded, &go_seen)) return;
  for (uint32_t i = 0; i < ONSTACK_GO_RUNTIMES; i++) list.live[i] = go_is_live(i) ? go_entries[i].load : 0;
  go_objects_list(&list);
  if (!onstack_loader_same(&list.loaded, &go_seen)) go_looks = 0;
  const bool retired = go_retire_missing(&list);
  bool finished = list.left_out == 0;
  for (uint32_t i = 0; i < list.count; i++) finished = go_inspect_object(&list.objects[i]) && finished;
  go_seen_any = finished || ++go_looks >= GO_LOOKS;
  if (go_seen_any)
    go_looked = retired ? 0 : list.last;
  else
    onstack_store_relaxed(&onstack_code.stale, 1u); /* soon */
  go_seen = list.loaded;
  free(list.objects);
}

bool onstack_go_runtime_is_present(void) {
  const uint32_t count = onstack_observe(&onstack_code.go_count);
  for (uint32_t i = 0; i < count; i++)
    if (go_is_live(i)) return true;
  return false;
}

bool onstack_go_runtime_is_program(void) {
  const uint32_t count = onstack_observe(&onstack_code.go_count);
  for (uint32_t i = 0; i < count; i++)
    if (go_is_live(i) && !go_entries[i].copy && !go_entries[i].is_library) return true;
  return false;
}

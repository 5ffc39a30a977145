/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/go_runtime.h"

#include "sampler/modules/go_layout.h"
#include "sampler/modules/go_objects.h"
#include "sampler/modules/go_pclntab.h"
#include "sampler/modules/readers.h"
#include "platform/process_memory.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/pc_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

static bool go_is_there(uint32_t index, const onstack_go_object_list *list) {
  const go_entry *entry = &go_entries[index];
  if (list->live_is_there[index]) return true;
  for (uint32_t i = 0; i < list->count; i++) {
    const onstack_go_object *object = &list->objects[i];
    if (object->load != 0 && entry->load != 0 && object->load != entry->load) continue;
    if (object->bias == entry->bias && onstack_go_object_holds(object, entry->pclntab, entry->functab_end - entry->pclntab))
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
static bool go_retire_missing(const onstack_go_object_list *list) {
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
static bool go_find_text(const onstack_go_object *object, const onstack_go_sections *sections, onstack_go_pclntab *table,
                         onstack_code_range *text) {
  uint64_t module[GO_MODULE_ETEXT + 1];
  if (sections->module && sections->module % 8 == 0 && sections->module_size >= sizeof(module) &&
      onstack_go_object_holds(object, sections->module, sections->module_size) &&
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
  return text->low < text->high && onstack_go_object_holds(object, text->low, text->high - text->low);
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
static bool go_enter(uint32_t index, const onstack_go_object *object, const onstack_go_sections *sections,
                     onstack_go_pclntab *table, uint8_t *copy) {
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
static bool go_inspect_object(const onstack_go_object *object) {
  onstack_go_sections sections;
  onstack_go_pclntab table;
  bool soon;
  const int error = onstack_go_object_sections(object, &sections);
  if (error != 0) return error != -ENOMEM;
  for (uint32_t i = 0; i < onstack_code.go_count; i++)
    if (go_is_live(i) && onstack_go_object_holds(object, onstack_code.go[i].text.low, 1)) return true;
  const uint32_t index = go_free_entry(&soon);
  if (index == ONSTACK_GO_RUNTIMES) return !soon;
  if (!onstack_go_object_holds(object, sections.pclntab, sections.pclntab_size)) return true;
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
  onstack_go_object_list list = {.looked = go_looked};
  go_free_retired();
  if (!onstack_loader_count(&list.loaded)) return;
  if (go_seen_any && onstack_loader_same(&list.loaded, &go_seen)) return;
  for (uint32_t i = 0; i < ONSTACK_GO_RUNTIMES; i++) list.live[i] = go_is_live(i) ? go_entries[i].load : 0;
  onstack_go_objects_list(&list);
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

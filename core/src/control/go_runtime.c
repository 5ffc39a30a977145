/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/go_runtime.h"

#include "base/regular_file.h"
#include "control/go_layout.h"
#include "control/go_pclntab.h"
#include "control/loader.h"
#include "handler/code_map.h"
#include "handler/pc_cache.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* moduledata in words (runtime/symtab.go, Go 1.18 to 1.26), from 0 pcHeader on. The section .go.module holds it. */
#define GO_MODULE_PCTAB 10
#define GO_MODULE_PCLNTABLE 13
#define GO_MODULE_TEXT 22
#define GO_MODULE_ETEXT 23

#define GO_SEGMENTS 12 /* linkers write four to six */

typedef struct go_object {
  uint64_t bias;
  uint32_t segment_count;
  onstack_code_range segments[GO_SEGMENTS]; /* loaded and readable; between them may be holes that fault */
  char path[512];     /* "" for the main executable */
} go_object;

typedef struct go_sections {
  uint64_t pclntab, pclntab_size; /* loaded addresses; 0: none */
  uint64_t module, module_size;
  uint64_t text_low, text_high;   /* section .text, a bound for what the table says */
} go_sections;

#define GO_OBJECTS 512

typedef struct go_object_list {
  go_object *objects;
  uint32_t count;
  uint64_t adds, subs;
} go_object_list;

static uint64_t go_seen_adds, go_seen_subs; /* under the map lock */
static bool go_seen_any;

/* While an object is being opened, its module data are there before they are relocated, and prove nothing: it is looked
   at again, so many times, until it can be read. */
#define GO_LOOKS 50u
static uint32_t go_looks;

static int go_read_counts(struct dl_phdr_info *info, size_t size, void *data) {
  go_object_list *list = data;
  (void)size;
  list->adds = info->dlpi_adds;
  list->subs = info->dlpi_subs;
  return 1;
}

/* Copies only: a slow callback would hold the loader's lock and block dlopen elsewhere. */
static int go_copy_object(struct dl_phdr_info *info, size_t size, void *data) {
  go_object_list *list = data;
  go_read_counts(info, size, data);
  if (list->count == GO_OBJECTS) return 1;
  go_object *object = &list->objects[list->count];
  object->bias = info->dlpi_addr;
  object->segment_count = 0;
  for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_R) || object->segment_count == GO_SEGMENTS) continue;
    uint64_t low = info->dlpi_addr + segment->p_vaddr;
    object->segments[object->segment_count++] = (onstack_code_range){low, low + segment->p_memsz};
  }
  object->path[0] = 0;
  if (info->dlpi_name && strlen(info->dlpi_name) < sizeof(object->path)) strcpy(object->path, info->dlpi_name);
  list->count++;
  return 0;
}

static bool go_read_at(int file, void *out, size_t size, uint64_t offset) {
  return offset <= INT64_MAX && pread(file, out, size, (off_t)offset) == (ssize_t)size;
}

static void go_note_section(go_sections *sections, const char *name, const Elf64_Shdr *section, uint64_t bias) {
  if (strcmp(name, ".gopclntab") == 0 || strcmp(name, ".data.rel.ro.gopclntab") == 0) {
    sections->pclntab = bias + section->sh_addr;
    sections->pclntab_size = section->sh_size;
  } else if (strcmp(name, ".go.module") == 0 || strcmp(name, ".data.rel.ro.go.module") == 0) {
    sections->module = bias + section->sh_addr;
    sections->module_size = section->sh_size;
  } else if (strcmp(name, ".text") == 0) {
    sections->text_low = bias + section->sh_addr;
    sections->text_high = bias + section->sh_addr + section->sh_size;
  }
}

static void go_read_sections(int file, const Elf64_Ehdr *header, uint64_t bias, go_sections *sections) {
  Elf64_Shdr names, section;
  char name[32];
  if (header->e_shentsize != sizeof(section) || header->e_shstrndx >= header->e_shnum) return;
  if (!go_read_at(file, &names, sizeof(names), header->e_shoff + (uint64_t)header->e_shstrndx * sizeof(names))) return;
  for (uint32_t i = 0; i < header->e_shnum; i++) {
    if (!go_read_at(file, &section, sizeof(section), header->e_shoff + (uint64_t)i * sizeof(section))) return;
    if (!(section.sh_flags & SHF_ALLOC)) continue;
    memset(name, 0, sizeof(name));
    if (names.sh_offset > INT64_MAX ||
        pread(file, name, sizeof(name) - 1, (off_t)(names.sh_offset + section.sh_name)) <= 0)
      continue;
    go_note_section(sections, name, &section, bias);
  }
}

static bool go_find_sections(const go_object *object, go_sections *sections) {
  Elf64_Ehdr header;
  memset(sections, 0, sizeof(*sections));
  uint64_t size;
  int file = onstack_regular_file_open(object->path[0] ? object->path : "/proc/self/exe", &size);
  if (file < 0) return false;
  if (go_read_at(file, &header, sizeof(header), 0) && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
      header.e_ident[EI_CLASS] == ELFCLASS64)
    go_read_sections(file, &header, object->bias, sections);
  close(file);
  return sections->pclntab != 0;
}

/* The file may have been replaced since it was loaded: only addresses inside one loaded segment are looked at. */
static bool go_is_loaded(const go_object *object, uint64_t address, uint64_t size) {
  for (uint32_t i = 0; i < object->segment_count; i++) {
    const onstack_code_range *segment = &object->segments[i];
    if (address >= segment->low && address <= segment->high && size <= segment->high - address) return true;
  }
  return false;
}

/*
 * Functions that run on another stack than their caller. Those of the second kind begin with push rbp; mov rbp, rsp, so
 * their record stays on the caller's stack and the saved frame pointer leads back to it (runtime/asm_amd64.s,
 * runtime/sys_linux_amd64.s).
 */
static const struct {
  const char *name;
  uint32_t treatment;
} go_special_names[] = {
    {"runtime.asmcgocall", ONSTACK_GO_BY_G},      {"runtime.systemstack", ONSTACK_GO_BY_FP},
    {"runtime.cgocallback", ONSTACK_GO_BY_FP},    {"runtime.nanotime1", ONSTACK_GO_BY_FP},
    {"time.now", ONSTACK_GO_BY_FP},               {"runtime.walltime", ONSTACK_GO_BY_FP},
    {"runtime.vgetrandom1", ONSTACK_GO_BY_FP},    {"runtime.callCgoSigaction", ONSTACK_GO_BY_FP},
    {"runtime.callCgoMmap", ONSTACK_GO_BY_FP},    {"runtime.callCgoMunmap", ONSTACK_GO_BY_FP},
    {"crosscall2", ONSTACK_GO_CROSSCALL2},        {"runtime.asyncPreempt", ONSTACK_GO_EXACT},
    {"runtime.sigpanic", ONSTACK_GO_EXACT},       {"runtime.sigpanic0", ONSTACK_GO_EXACT},
    {"runtime.debugCallV2", ONSTACK_GO_EXACT},
    {"runtime.goexit", ONSTACK_GO_ROOT},          {"runtime.mstart", ONSTACK_GO_ROOT},
    {"runtime.rt0_go", ONSTACK_GO_ROOT},          {"runtime.mcall", ONSTACK_GO_LEAVES},
    {"gogo", ONSTACK_GO_RESUMES},                 {"racecall", ONSTACK_GO_LOST},
    {"asancall", ONSTACK_GO_LOST},                {"msancall", ONSTACK_GO_LOST},
    {"runtime.morestack", ONSTACK_GO_GROWS},      {"runtime.schedule", ONSTACK_GO_SCHEDULES},
#if defined(__aarch64__) /* f's caller is in x3 there as in morestack, to which it jumps */
    {"runtime.morestack_noctxt", ONSTACK_GO_GROWS},
#endif
    {"runtime.switchToCrashStack0", ONSTACK_GO_LOST},
};

static void go_note_function(void *data, const char *name, uint64_t low, uint64_t high) {
  onstack_go_runtime *go = data;
  if (low < go->text.low || high > go->text.high) return; /* its code will be read */
  if (strncmp(name, "runtime.", 8) != 0 && !strchr("acgmrt", name[0])) return;
  for (size_t i = 0; i < ONSTACK_COUNT_OF(go_special_names); i++) {
    if (strcmp(name, go_special_names[i].name) != 0 || go->special_count == ONSTACK_GO_SPECIALS) continue;
    go->specials[go->special_count++] = (onstack_go_special){{low, high}, go_special_names[i].treatment, 0};
    if (go->span.high == 0 || low < go->span.low) go->span.low = low;
    if (high > go->span.high) go->span.high = high;
    return;
  }
}

/* Where text begins and ends: from moduledata where it proves to be one, else from the table's own header. */
static bool go_find_text(const go_object *object, const go_sections *sections, onstack_go_pclntab *table,
                         onstack_code_range *text) {
  const uint64_t *module = (const uint64_t *)(uintptr_t)sections->module;
  if (sections->module && sections->module % 8 == 0 && sections->module_size >= (GO_MODULE_ETEXT + 1) * 8 &&
      go_is_loaded(object, sections->module, sections->module_size) && module[0] == sections->pclntab &&
      module[GO_MODULE_PCTAB] == sections->pclntab + table->pc_values &&
      module[GO_MODULE_PCLNTABLE] == sections->pclntab + table->functions) {
    table->text = module[GO_MODULE_TEXT];
    *text = (onstack_code_range){module[GO_MODULE_TEXT], module[GO_MODULE_ETEXT]};
  } else {
    uint32_t end;
    memcpy(&end, table->base + table->functions + table->function_count * 8, sizeof(end));
    *text = (onstack_code_range){table->text, table->text + end};
  }
  return text->low < text->high && go_is_loaded(object, text->low, text->high - text->low);
}

/* False: it has Go's tables, but they could not be read. */
static bool go_inspect_object(const go_object *object) {
  go_sections sections;
  onstack_go_pclntab table;
  onstack_go_runtime go;
  uint32_t count = onstack_code.go_count;
  if (!go_find_sections(object, &sections)) return true;
  for (uint32_t i = 0; i < count; i++)
    if (go_is_loaded(object, onstack_code.go[i].text.low, 1)) return true;
  memset(&go, 0, sizeof(go));
  if (count == ONSTACK_GO_RUNTIMES || !go_is_loaded(object, sections.pclntab, sections.pclntab_size)) return true;
  if (!onstack_go_pclntab_open(&table, (const void *)(uintptr_t)sections.pclntab, sections.pclntab_size)) return false;
  if (!go_find_text(object, &sections, &table, &go.text)) return false;
  go.functions = (onstack_go_functions){table.base + table.functions,
                                        table.base + table.functions,
                                        table.base + table.pc_values,
                                        table.base + table.size,
                                        table.text,
                                        (uint32_t)table.function_count,
                                        table.quantum};
  onstack_go_pclntab_each(&table, go_note_function, &go);
  onstack_go_layout_read(&go);
  onstack_code.go[count] = go;
  onstack_publish(&onstack_code.go_count, count + 1); /* pairs with the observe in handler/code_map.c */
  /* What a handler remembers of this code is from before: described by nothing. */
  onstack_dekker_add(&onstack_pc_epoch, (uint64_t)1);
  return true;
}

void onstack_go_runtime_refresh(void) {
  go_object_list list = {.objects = NULL};
  if (!onstack_loader_each(go_read_counts, &list)) return;
  if (go_seen_any && list.adds == go_seen_adds && list.subs == go_seen_subs) return;
  /* Go shared libraries are never unloaded (the runtime does not support it), so entries stay good. */
  list.objects = malloc(GO_OBJECTS * sizeof(go_object));
  if (!list.objects) return;
  onstack_loader_each(go_copy_object, &list);
  if (list.adds != go_seen_adds || list.subs != go_seen_subs) go_looks = 0;
  bool settled = true;
  for (uint32_t i = 0; i < list.count; i++) settled = go_inspect_object(&list.objects[i]) && settled;
  go_seen_any = settled || ++go_looks >= GO_LOOKS;
  if (!go_seen_any) onstack_store_relaxed(&onstack_code.stale, 1u); /* soon */
  go_seen_adds = list.adds;
  go_seen_subs = list.subs;
  free(list.objects);
}

bool onstack_go_runtime_is_present(void) { return onstack_observe(&onstack_code.go_count) > 0; }

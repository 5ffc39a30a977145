/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The providers that are registered, and what they are called with: exported symbols, and memory that the kernel copies. */
#include "sampler/interpreter/interpreter.h"

#include "platform/calls.h"
#include "platform/interpreted.h"
#include "platform/loader.h"
#include "sampler/unwind/memory.h"

#include <errno.h>
#include <string.h>

#define PROVIDERS_SIZE_0_1 ((size_t)72)
#define PROVIDERS_STACK_MAX (1u << 30)
_Static_assert(offsetof(onstack_frame_provider, is_innermost) + sizeof(void *) == PROVIDERS_SIZE_0_1, "grows at the end");

static const onstack_frame_provider *providers_registered[ONSTACK_INTERPRETERS - 1]; /* NULL: free (publish / observe) */

bool onstack_providers_check(const onstack_frame_provider *provider) {
  return onstack_sized_check(provider, sizeof(*provider), PROVIDERS_SIZE_0_1) == 0 && provider->name &&
         strlen(provider->name) < sizeof(((onstack_frame_text *)0)->language) && provider->prepare && provider->copy &&
         provider->describe && provider->stack_bytes <= PROVIDERS_STACK_MAX;
}

ONSTACK_API int onstack_frame_provider_register(const onstack_frame_provider *provider) {
  if (!provider || !onstack_providers_check(provider)) return ONSTACK_E_OPTIONS;
  for (uint32_t i = 0; i < ONSTACK_COUNT_OF(providers_registered); i++) {
    const onstack_frame_provider *there = NULL;
    if (onstack_cas(&providers_registered[i], &there, provider) || there == provider) return 0;
  }
  return -ENOSPC;
}

void onstack_providers_list(onstack_interpreter_list *list) {
  const onstack_frame_provider *provider;
  list->count = 0;
  while (list->count < ONSTACK_COUNT_OF(providers_registered) &&
         (provider = onstack_observe(&providers_registered[list->count])))
    list->providers[list->count++] = provider;
}

typedef struct symbols_visit_data {
  const char *const *names;
  uint32_t count, needed;
  onstack_symbols_memory *memory;
  onstack_symbols_found found;
  bool complete;
} symbols_visit_data;

static bool symbols_read(const struct dl_phdr_info *info, symbols_visit_data *visit) {
  onstack_object_copy copy;
  onstack_loaded_symbols loaded;
  onstack_object_copy_headers(info, &copy);
  const uint64_t dynamic = onstack_object_segment(&copy.info, PT_DYNAMIC);
  if (!dynamic || !onstack_loaded_symbols_read(dynamic, info->dlpi_addr, &loaded)) return false;
  for (uint32_t i = 0; i < visit->count; i++) {
    Elf64_Sym symbol;
    const bool has = onstack_loaded_symbols_find(&loaded, visit->names[i], STT_NOTYPE, &symbol);
    if (!has && i < visit->needed) return false;
    const uint64_t low = has ? info->dlpi_addr + symbol.st_value : 0;
    visit->found.symbols[i] = (onstack_loop_code){low, has ? low + symbol.st_size : 0};
  }
  return true;
}

static int symbols_visit(const struct dl_phdr_info *info, uint64_t number, void *data) {
  symbols_visit_data *visit = data;
  onstack_symbols_memory *memory = visit->memory;
  if (number != 0 && number == memory->hit) {
    visit->found = memory->found;
    visit->complete = true;
    return 1;
  }
  if (number != 0 && number <= memory->looked) return 0;
  visit->complete = symbols_read(info, visit);
  if (number == 0) return visit->complete;
  if (number > memory->looked) memory->looked = number;
  if (!visit->complete) return 0;
  memory->found = visit->found;
  memory->hit = number;
  return 1;
}

bool onstack_symbols_look(const char *const *names, uint32_t count, uint32_t needed, onstack_symbols_memory *memory,
                          onstack_loop_code *found) {
  symbols_visit_data visit = {.names = names, .count = count, .needed = needed, .memory = memory};
  if (count > ONSTACK_FRAME_SYMBOLS || !onstack_loader_each_load(symbols_visit, &visit) || !visit.complete) return false;
  memcpy(found, visit.found.symbols, count * sizeof(*found));
  return true;
}

/* What prepare is called with. */
typedef struct symbols_search {
  onstack_frame_memory memory; /* the first: `find` gets its address */
  onstack_symbols_memory *symbols;
} symbols_search;

static uint32_t symbols_find(const onstack_frame_memory *memory, const char *const *names, uint32_t count, uint32_t needed,
                             onstack_loop_code *found) {
  return onstack_symbols_look(names, count, needed, ((const symbols_search *)memory)->symbols, found);
}

int onstack_provider_prepare(const onstack_frame_provider *provider, onstack_symbols_memory *symbols,
                             onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  ONSTACK_STOP_EXCEPTIONS;
  symbols_search search = {onstack_copied_memory, symbols};
  search.memory.thread_pointer = onstack_thread_pointer();
  search.memory.find = symbols_find;
  return provider->prepare(provider->data, &search.memory, loops);
}

bool onstack_provider_is_alive(const onstack_frame_provider *provider) {
  ONSTACK_STOP_EXCEPTIONS;
  return !provider->is_alive || provider->is_alive(provider->data, &onstack_copied_memory) != 0;
}

typedef struct symbols_table {
  uint64_t address, table;
} symbols_table;

static int symbols_look_for_table(const struct dl_phdr_info *info, uint64_t number, void *data) {
  symbols_table *search = data;
  onstack_object_copy copy;
  (void)number;
  onstack_object_copy_headers(info, &copy);
  for (uint32_t i = 0; i < copy.info.dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &copy.info.dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || search->address - (info->dlpi_addr + segment->p_vaddr) >= segment->p_memsz) continue;
    search->table = onstack_object_segment(&copy.info, PT_GNU_EH_FRAME);
    return 1;
  }
  return 0;
}

uint64_t onstack_loop_unwind_table(uint64_t address) {
  symbols_table search = {address, 0};
  onstack_loader_each_load(symbols_look_for_table, &search);
  return search.table;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/symbols.h"

#include "platform/loader.h"
#include "sampler/interpreter/instructions.h"

typedef struct symbols_visit_data {
  const onstack_symbols_wanted *wanted;
  onstack_symbols_memory *memory;
  onstack_symbols_found *found;
  bool complete;
} symbols_visit_data;

static bool symbols_read(const struct dl_phdr_info *info, const onstack_symbols_wanted *wanted,
                         onstack_symbols_found *found) {
  onstack_object_copy copy;
  onstack_loaded_symbols loaded;
  onstack_object_copy_headers(info, &copy);
  const uint64_t dynamic = onstack_object_segment(&copy.info, PT_DYNAMIC);
  found->eh_frame_header = onstack_object_segment(&copy.info, PT_GNU_EH_FRAME);
  if (!dynamic || !onstack_loaded_symbols_read(dynamic, info->dlpi_addr, &loaded)) return false;
  for (uint32_t i = 0; i < wanted->count; i++) {
    Elf64_Sym symbol;
    const bool has = onstack_loaded_symbols_find(&loaded, wanted->names[i], STT_NOTYPE, &symbol);
    if (!has && i < wanted->needed) return false;
    found->address[i] = has ? info->dlpi_addr + symbol.st_value : 0;
    found->size[i] = has ? symbol.st_size : 0;
  }
  return true;
}

static int symbols_visit(const struct dl_phdr_info *info, uint64_t number, void *data) {
  symbols_visit_data *visit = data;
  onstack_symbols_memory *memory = visit->memory;
  if (number != 0 && number == memory->hit) {
    *visit->found = memory->found;
    visit->complete = true;
    return 1;
  }
  if (number != 0 && number <= memory->looked) return 0;
  visit->complete = symbols_read(info, visit->wanted, visit->found);
  if (number == 0) return visit->complete;
  if (number > memory->looked) memory->looked = number;
  if (!visit->complete) return 0;
  memory->found = *visit->found;
  memory->hit = number;
  return 1;
}

bool onstack_symbols_look(const onstack_symbols_wanted *wanted, onstack_symbols_memory *memory,
                          onstack_symbols_found *found) {
  onstack_symbols_memory none = {0};
  symbols_visit_data visit = {wanted, memory ? memory : &none, found, false};
  return onstack_loader_each_load(symbols_visit, &visit) && visit.complete;
}

int onstack_symbols_loop(const onstack_symbols_found *found, uint32_t which, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  loops[0] = (onstack_loop_code){found->address[which], found->address[which] + found->size[which]};
  return onstack_cold_code(found->eh_frame_header, loops);
}

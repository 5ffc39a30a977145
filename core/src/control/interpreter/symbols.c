/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/interpreter/symbols.h"

#include "base/loaded_symbols.h"
#include "base/loader.h"
#include "control/interpreter/cold_code.h"

typedef struct symbols_visit_data {
  const onstack_symbols_wanted *wanted;
  onstack_symbols_found *found;
  bool complete;
} symbols_visit_data;

static int symbols_visit(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  symbols_visit_data *visit = data;
  onstack_loaded_symbols loaded;
  const uint64_t dynamic = onstack_object_segment(info, PT_DYNAMIC);
  visit->found->eh_frame_header = onstack_object_segment(info, PT_GNU_EH_FRAME);
  if (!dynamic || !onstack_loaded_symbols_read(dynamic, info->dlpi_addr, &loaded)) return 0;
  for (uint32_t i = 0; i < visit->wanted->count; i++) {
    Elf64_Sym symbol;
    const bool has = onstack_loaded_symbols_find(&loaded, visit->wanted->names[i], STT_NOTYPE, &symbol);
    if (!has && i < visit->wanted->needed) return 0;
    visit->found->address[i] = has ? info->dlpi_addr + symbol.st_value : 0;
    visit->found->size[i] = has ? symbol.st_size : 0;
  }
  visit->complete = true;
  return 1;
}

bool onstack_symbols_look(const onstack_symbols_wanted *wanted, onstack_symbols_found *found) {
  symbols_visit_data visit = {wanted, found, false};
  return onstack_loader_each(symbols_visit, &visit) && visit.complete;
}

int onstack_symbols_loop(const onstack_symbols_found *found, uint32_t which, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  loops[0] = (onstack_loop_code){found->address[which], found->address[which] + found->size[which]};
  return onstack_cold_code(found->eh_frame_header, loops);
}

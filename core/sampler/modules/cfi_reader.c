/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/cfi_reader.h"

#include "sampler/modules/dwarf.h"

#include <string.h>

uint64_t onstack_cfi_long_uleb(onstack_cfi_reader *reader) {
  uint64_t value = 0;
  for (uint32_t shift = 0; shift < 70; shift += 7) {
    uint64_t byte = onstack_cfi_byte(reader);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
  reader->bad = true;
  return 0;
}

int64_t onstack_cfi_sleb(onstack_cfi_reader *reader) {
  uint64_t value = 0;
  for (uint32_t shift = 0; shift < 70;) {
    uint64_t byte = onstack_cfi_byte(reader);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    shift += 7;
    if (byte & 0x80) continue;
    if (shift < 64 && (byte & 0x40)) value |= ~(uint64_t)0 << shift;
    return (int64_t)value;
  }
  reader->bad = true;
  return 0;
}

void onstack_cfi_skip(onstack_cfi_reader *reader, uint64_t bytes) {
  if (reader->bad || bytes > reader->end - reader->at) {
    reader->bad = true;
    return;
  }
  reader->at += (size_t)bytes;
}

uint64_t onstack_cfi_pointer(onstack_cfi_reader *reader, uint8_t encoding) {
  uint64_t place = reader->address + reader->at, value = 0;
  if (encoding == DW_EH_PE_omit) return 0;
  switch (encoding & DW_EH_PE_FORMAT) {
  case DW_EH_PE_absptr:
  case DW_EH_PE_udata8:
  case DW_EH_PE_sdata8:
    value = onstack_cfi_fixed(reader, 8);
    break;
  case DW_EH_PE_uleb128:
    value = onstack_cfi_uleb(reader);
    break;
  case DW_EH_PE_udata2:
    value = onstack_cfi_fixed(reader, 2);
    break;
  case DW_EH_PE_udata4:
    value = onstack_cfi_fixed(reader, 4);
    break;
  case DW_EH_PE_sleb128:
    value = (uint64_t)onstack_cfi_sleb(reader);
    break;
  case DW_EH_PE_sdata2:
    value = (uint64_t)(int64_t)(int16_t)onstack_cfi_fixed(reader, 2);
    break;
  case DW_EH_PE_sdata4:
    value = (uint64_t)(int64_t)(int32_t)onstack_cfi_fixed(reader, 4);
    break;
  default:
    reader->bad = true;
  }
  switch (encoding & DW_EH_PE_RELATIVE) {
  case 0: /* to nothing */
    return value;
  case DW_EH_PE_pcrel:
    return value + place;
  default:
    reader->bad = true;
    return 0;
  }
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/cfi_entry.h"

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

static bool cfi_parse_augmentation(onstack_cfi_reader *reader, const char *text, onstack_cfi_common *common) {
  uint64_t length = onstack_cfi_uleb(reader);
  size_t end = reader->at + (size_t)length;
  if (reader->bad || length > reader->end - reader->at) return false;
  for (text++; *text; text++) {
    if (*text == 'R') {
      common->pointer_encoding = (uint8_t)onstack_cfi_byte(reader);
    } else if (*text == 'P') {
      uint8_t encoding = (uint8_t)onstack_cfi_byte(reader);
      onstack_cfi_pointer(reader, (uint8_t)(encoding & ~DW_EH_PE_indirect)); /* the personality routine is only skipped */
    } else if (*text == 'L') {
      onstack_cfi_byte(reader);
    } else if (*text == 'S') {
      common->signal_frame = true;
    } else if (*text != 'B') { /* 'B': aarch64 signs with the other key; addresses are stripped anyway */
      break;                   /* unknown letters end the part that can be understood; the length skips them */
    }
  }
  reader->at = end;
  return !reader->bad;
}

/* A CIE at `offset`. */
static bool cfi_parse_common(const onstack_cfi_section *section, uint64_t offset, onstack_cfi_common *common) {
  if (offset >= section->size) return false;
  onstack_cfi_reader reader = {section->bytes, (size_t)offset, section->size, section->address, false};
  uint64_t length = onstack_cfi_fixed(&reader, 4);
  if (length == 0xffffffff) length = onstack_cfi_fixed(&reader, 8);
  if (reader.bad || length > reader.end - reader.at) return false;
  reader.end = reader.at + (size_t)length;
  if (onstack_cfi_fixed(&reader, 4) != 0) return false; /* not a CIE */
  uint64_t version = onstack_cfi_byte(&reader);
  const char *text = (const char *)section->bytes + reader.at;
  if (reader.bad || (version != 1 && version != 3) || !memchr(text, 0, reader.end - reader.at)) return false;
  onstack_cfi_skip(&reader, strlen(text) + 1);
  memset(common, 0, sizeof(*common));
  common->code_align = onstack_cfi_uleb(&reader);
  common->data_align = onstack_cfi_sleb(&reader);
  common->ra_register = version == 1 ? onstack_cfi_byte(&reader) : onstack_cfi_uleb(&reader);
  common->has_augmentation = text[0] == 'z';
  if (common->has_augmentation) {
    if (!cfi_parse_augmentation(&reader, text, common)) return false;
  } else if (text[0] != 0) {
    return false;
  }
  common->instructions = reader.at;
  common->end = reader.end;
  return !reader.bad && common->code_align <= 64 && common->data_align >= -64 && common->data_align <= 64;
}

/* Makes section->common the CIE at `offset`. */
static bool cfi_take_common(onstack_cfi_section *section, uint64_t offset) {
  if (section->common_good && section->common_offset == offset) return true;
  section->common_good = cfi_parse_common(section, offset, &section->common);
  section->common_offset = offset;
  return section->common_good;
}

/* An FDE's bounds; the reader is left at its instructions, and section->common is its CIE. */
static bool cfi_parse_function(onstack_cfi_section *section, uint64_t offset, uint64_t common_offset,
                               onstack_cfi_reader *reader, onstack_cfi_function *function) {
  if (!cfi_take_common(section, common_offset)) return false;
  const onstack_cfi_common *common = &section->common;
  function->entry = (uint32_t)offset;
  function->low = onstack_cfi_pointer(reader, common->pointer_encoding);
  uint64_t length = onstack_cfi_pointer(reader, common->pointer_encoding & DW_EH_PE_FORMAT);
  function->high = function->low + length;
  if (common->has_augmentation) onstack_cfi_skip(reader, onstack_cfi_uleb(reader));
  return !reader->bad && length != 0 && function->high > function->low;
}

/* An entry's bounds and kind. False at the terminator and where the section is malformed. */
static bool cfi_open_entry(const onstack_cfi_section *section, size_t offset, onstack_cfi_reader *reader,
                           uint64_t *common_offset, bool *is_function) {
  *reader = (onstack_cfi_reader){section->bytes, offset, section->size, section->address, false};
  uint64_t length = onstack_cfi_fixed(reader, 4);
  if (length == 0xffffffff) length = onstack_cfi_fixed(reader, 8);
  if (reader->bad || length == 0 || length > reader->end - reader->at) return false;
  reader->end = reader->at + (size_t)length;
  size_t place = reader->at;
  uint64_t id = onstack_cfi_fixed(reader, 4);
  *is_function = id != 0;
  *common_offset = place - id; /* wraps when hostile; cfi_parse_common checks it */
  return !reader->bad;
}

bool onstack_cfi_open(onstack_cfi_section *section, uint32_t entry, onstack_cfi_reader *instructions) {
  onstack_cfi_function function;
  uint64_t common_offset;
  bool is_function;
  return cfi_open_entry(section, entry, instructions, &common_offset, &is_function) && is_function &&
         cfi_parse_function(section, entry, common_offset, instructions, &function);
}

void onstack_cfi_each(onstack_cfi_section *section, bool (*visit)(void *data, const onstack_cfi_function *function),
                      void *data) {
  onstack_cfi_reader reader;
  onstack_cfi_function function;
  uint64_t common_offset;
  bool is_function;
  for (size_t offset = 0; offset < section->size && offset <= UINT32_MAX; offset = reader.end) {
    if (!cfi_open_entry(section, offset, &reader, &common_offset, &is_function)) return;
    size_t end = reader.end;
    if (is_function && cfi_parse_function(section, offset, common_offset, &reader, &function) && !visit(data, &function))
      return;
    reader.end = end;
  }
}

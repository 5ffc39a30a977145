/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/cfi_entry.h"

#include "sampler/modules/dwarf.h"

#include <string.h>

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

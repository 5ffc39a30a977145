/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/interpreter.h"

#include "platform/process.h"
#include "sampler/modules/blocked_x86_64.h"

#include <string.h>

#if defined(__x86_64__)

#define LOOP_ENTRY 16u     /* mov %rsp,%rbp lies within, behind an endbr64 and pushes */
#define LOOP_PROLOGUE 128u /* what moves SP lies within */

bool onstack_loop_frame(uint64_t address, uint64_t *size) {
  static const uint8_t move[] = {0x48, 0x89, 0xe5};
  uint8_t code[LOOP_ENTRY];
  *size = 0;
  if (!onstack_process_memory_read(address, code, sizeof(code))) return false;
  const uint8_t *found = memmem(code, sizeof(code), move, sizeof(move));
  if (!found) return true;
  const onstack_prologue prologue = {.framed = address + (uint64_t)(found - code) + sizeof(move)};
  const int64_t depth = onstack_prologue_depth(&prologue, address + LOOP_PROLOGUE);
  if (depth > 0) *size = (uint64_t)depth;
  return depth > 0;
}

/*
 * No exported symbol names the parts that lie apart. But each has an FDE of its own, and the function jumps to many places
 * inside of it by conditional jumps; to another function it jumps, if at all, to where that begins. All is read by copies: the
 * object may go at any instant.
 */

#define COLD_JUMPS 4u       /* into the midst of one piece; bytes that are no jump may look like one */
#define COLD_CANDIDATES 64u /* by such bytes */
#define COLD_BLOCK 4096u
#define COLD_JUMP_BYTES 6u /* 0f 80 to 0f 8f, and four of distance (Intel SDM volume 2, Jcc) */

/* .eh_frame_hdr: a table sorted by address (Linux Standard Base 5.0, 10.6.2). */
typedef struct cold_table {
  uint64_t header;
  uint32_t count;
} cold_table;

typedef struct cold_piece {
  onstack_loop_code code;
  uint32_t jumps;
} cold_piece;

typedef struct cold_search {
  cold_table table;
  onstack_loop_code loop;
  uint32_t count;
  cold_piece pieces[COLD_CANDIDATES];
} cold_search;

/* In the form that linkers write: offsets in four bytes, those of the table from the header on. */
static bool cold_open(uint64_t header, cold_table *table) {
  static const uint8_t form[4] = {1, 0x1b, 0x03, 0x3b};
  uint8_t head[12];
  if (header == 0 || !onstack_process_memory_read(header, head, sizeof(head)) || memcmp(head, form, sizeof(form)) != 0)
    return false;
  table->header = header;
  memcpy(&table->count, head + 8, sizeof(table->count));
  return table->count > 0;
}

/* Of an entry: where its code begins, and its FDE. */
static bool cold_entry(const cold_table *table, uint32_t index, uint64_t *begins, uint64_t *fde) {
  int32_t offsets[2];
  if (!onstack_process_memory_read(table->header + 12 + (uint64_t)index * sizeof(offsets), offsets, sizeof(offsets)))
    return false;
  *begins = table->header + (uint64_t)(int64_t)offsets[0];
  *fde = table->header + (uint64_t)(int64_t)offsets[1];
  return true;
}

/* The code of an FDE: length, CIE, begin and range, in four bytes each. The table confirms the form of `begin`. */
static bool cold_range(uint64_t begins, uint64_t fde, onstack_loop_code *code) {
  uint32_t words[4];
  if (!onstack_process_memory_read(fde, words, sizeof(words))) return false;
  *code = (onstack_loop_code){begins, begins + words[3]};
  return fde + 8 + (uint64_t)(int64_t)(int32_t)words[2] == begins;
}

/* The code with an FDE of its own that holds an address. */
static bool cold_find(const cold_table *table, uint64_t address, onstack_loop_code *code) {
  uint32_t low = 0, high = table->count;
  uint64_t begins, fde;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (!cold_entry(table, middle, &begins, &fde)) return false;
    if (begins <= address)
      low = middle;
    else
      high = middle;
  }
  return cold_entry(table, low, &begins, &fde) && cold_range(begins, fde, code) && address >= code->low &&
         address < code->high;
}

static bool cold_holds(const onstack_loop_code *code, uint64_t address) {
  return address >= code->low && address < code->high;
}

static void cold_add_jump(cold_search *search, uint64_t target) {
  cold_piece *piece = search->pieces;
  if (cold_holds(&search->loop, target)) return;
  while (piece < search->pieces + search->count && !cold_holds(&piece->code, target)) piece++;
  if (piece == search->pieces + search->count) {
    if (search->count == COLD_CANDIDATES || !cold_find(&search->table, target, &piece->code)) return;
    if (cold_holds(&piece->code, search->loop.low)) return; /* its own, behind the symbol's end */
    piece->jumps = 0;
    search->count++;
  }
  piece->jumps += target != piece->code.low;
}

static void cold_look_through(cold_search *search) {
  uint8_t bytes[COLD_BLOCK + COLD_JUMP_BYTES];
  for (uint64_t at = search->loop.low; at < search->loop.high; at += COLD_BLOCK) {
    const size_t left = search->loop.high - at, size = left < sizeof(bytes) ? left : sizeof(bytes);
    if (!onstack_process_memory_read(at, bytes, size)) return;
    for (size_t i = 0; i < COLD_BLOCK && i + COLD_JUMP_BYTES <= size; i++) {
      int32_t distance;
      if (bytes[i] != 0x0f || (bytes[i + 1] & 0xf0) != 0x80) continue;
      memcpy(&distance, bytes + i + 2, sizeof(distance));
      cold_add_jump(search, at + i + COLD_JUMP_BYTES + (uint64_t)(int64_t)distance);
    }
  }
}

uint32_t onstack_loop_cold(onstack_loop_code loops[ONSTACK_LOOP_CODES], uint32_t count) {
  cold_search search = {.loop = loops[0]};
  if (count == 0 || !cold_open(onstack_loop_unwind_table(loops[0].low), &search.table)) return count;
  cold_look_through(&search);
  for (uint32_t i = 0; i < search.count && count < ONSTACK_LOOP_CODES; i++)
    if (search.pieces[i].jumps >= COLD_JUMPS) loops[count++] = search.pieces[i].code;
  return count;
}

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/window.h"

#include "platform/address.h"

#define WINDOW_PIECE_MOST ((uint64_t)1 << 24) /* bytes from a piece's beginning that are taken for its own */

ONSTACK_HANDLER bool onstack_window_read(const onstack_frame_memory *memory, uint64_t address, void *to, uint32_t bytes) {
  return !(address & 7) && onstack_address_plausible(address) && memory->read(address, to, bytes);
}

/* What ends with the frame, and begins with the piece at the earliest. */
static ONSTACK_HANDLER bool window_move(onstack_window *window, uint64_t end) {
  const uint64_t low = end - window->piece < ONSTACK_WINDOW_BYTES ? window->piece : end - ONSTACK_WINDOW_BYTES;
  if (!window->memory->read(low, window->bytes, (uint32_t)(end - low))) return false;
  window->low = low;
  window->high = end;
  return true;
}

ONSTACK_HANDLER const uint8_t *onstack_window_frame(onstack_window *window, uint64_t address, uint32_t size) {
  const uint64_t end = address + size;
  if (address & 7 || !onstack_address_plausible(address)) return NULL;
  const bool inside = address >= window->low && end <= window->high;
  const bool near = window->piece != 0 && address > window->piece && address - window->piece < WINDOW_PIECE_MOST;
  if (inside || (near && window_move(window, end))) return window->bytes + (address - window->low);
  return window->memory->read(address, window->frame, size) ? window->frame : NULL;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "drain/interpreter/known.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

size_t onstack_known_fetch(uint64_t address, void *to, size_t bytes) {
  struct onstack_vector local = {(uint64_t)(uintptr_t)to, bytes}, remote = {address, bytes};
  const long got = onstack_sys_process_vm_readv(&local, 1, &remote, 1);
  return got > 0 ? (size_t)got : 0;
}

static onstack_known_frame *known_place(onstack_known_frame *known, const onstack_interpreted_frame *frame) {
  const uint64_t mixed = (frame->function >> 4) * 0x9e3779b97f4a7c15u + frame->position * 0x85ebca6bu;
  return &known[mixed >> 40 & (ONSTACK_KNOWN_FRAMES - 1)];
}

int onstack_known_describe(onstack_known_frame known[ONSTACK_KNOWN_FRAMES], const onstack_known_reader *reader,
                           const onstack_interpreted_frame *frame, onstack_frame_text *text) {
  onstack_known_frame *place = known_place(known, frame);
  uint64_t identity[4] = {0, 0, 0, 0};
  const bool mine = frame->function != 0 && place->function == frame->function && place->position == frame->position;
  const bool there = reader->identify(frame, identity);
  if (mine && (!there || memcmp(place->identity, identity, sizeof(identity)) == 0)) {
    *text = place->text;
    return 0;
  }
  place->function = 0;
  if (!there || !reader->read(frame, identity, text)) return -ESRCH;
  place->function = frame->function;
  place->position = frame->position;
  memcpy(place->identity, identity, sizeof(identity));
  place->text = *text;
  return mine ? -ESRCH : 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "remote.h"

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

bool truth_remote_read(const truth_remote *remote, uint64_t address, void *out, size_t size) {
  if (address >= remote->window_low && address < remote->window_high && size <= remote->window_high - address) {
    memcpy(out, remote->window + (address - remote->window_low), size);
    return true;
  }
  struct iovec local = {out, size}, there = {(void *)(uintptr_t)address, size};
  return process_vm_readv(remote->process, &local, 1, &there, 1, 0) == (ssize_t)size;
}

static void remote_find_stack(truth_remote *remote, uint64_t sp) {
  char path[64], line[512];
  unsigned long low, high;
  snprintf(path, sizeof(path), "/proc/%d/maps", (int)remote->process);
  FILE *maps = fopen(path, "re");
  remote->stack_low = remote->stack_high = 0;
  while (maps && fgets(line, sizeof(line), maps)) {
    if (sscanf(line, "%lx-%lx", &low, &high) != 2 || sp < low || sp >= high) continue;
    remote->stack_low = low;
    remote->stack_high = high;
  }
  if (maps) fclose(maps);
}

void truth_remote_look(truth_remote *remote, uint64_t sp) {
  if (sp < remote->stack_low || sp >= remote->stack_high) remote_find_stack(remote, sp);
  remote->window_low = sp & ~(uint64_t)15;
  remote->window_high = remote->window_low;
  uint64_t size = remote->stack_high > sp ? remote->stack_high - remote->window_low : 0;
  if (size > TRUTH_WINDOW) size = TRUTH_WINDOW;
  struct iovec local = {remote->window, size}, there = {(void *)(uintptr_t)remote->window_low, size};
  ssize_t got = size ? process_vm_readv(remote->process, &local, 1, &there, 1, 0) : 0;
  if (got > 0) remote->window_high += (uint64_t)got;
}

/* The walker hands its onstack_memory to the reader and nothing else; walks do not overlap here. */
static const truth_remote *remote_walked;

static bool remote_always(const void *good, const void *bad) {
  (void)good;
  (void)bad;
  return true;
}

static bool remote_read_pair(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  (void)memory;
  return truth_remote_read(remote_walked, address, words, 16);
}

static const onstack_reader remote_reader = {"remote", remote_always, remote_read_pair};

onstack_walk_result truth_remote_walk(truth_remote *remote, const onstack_registers *registers, ucontext_t *context,
                                      uint64_t *frames, uint32_t capacity) {
  static onstack_stack_bounds bounds; /* takes the requests for stack bounds */
  onstack_memory memory;
  memset(&memory, 0, sizeof(memory));
  memset(&bounds, 0, sizeof(bounds));
  memory.reader = &remote_reader;
  memory.bounds = &bounds;
  memory.ranges[0] = (onstack_stack_range){remote->stack_low, remote->stack_high};
  onstack_memory_enter_stack(&memory, registers->sp);
  remote_walked = remote;
  onstack_walk walk = {
      .registers = registers, .ucontext = context, .memory = &memory, .frames = frames, .capacity = capacity};
  return onstack_unwinder_rules.run(&walk);
}

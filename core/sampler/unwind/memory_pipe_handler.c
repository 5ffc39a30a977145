/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reader `pipe`: write(2) of the foreign words into a pipe of our own, and read(2) back. The kernel copies, or says
 * EFAULT, as with process_vm_readv; but write and read are calls that no filter refuses. The last choice, because a
 * descriptor can be lost to the host, against which stands:
 *
 * - One descriptor, open for both directions (through /proc/thread-self/fd). So there is always a reader: never SIGPIPE.
 * - A number far above those that open() hands out (it takes the lowest free one): a host that closes all descriptors
 *   and opens its own does not get ours back by chance.
 * - Before each use fstat must still show the pipe that we made, in the process that made it: a descriptor that was
 *   closed, replaced or inherited is never written to. Between that look and the write there is an instant in which
 *   another thread may still put its own pipe or file under our number; it would have to close a descriptor that it did
 *   not open, and then ask for that very number.
 * - Each pipe has one user at a time, who takes it by a single try: nobody waits for a lock that the interrupted code,
 *   or a thread that never runs again, may hold. Where all are taken the word counts as unreadable.
 * - What went in is taken out again before the pipe is given back: 16 bytes are written as a whole or, where the second
 *   page is missing, in part. A pipe that returns anything else is not used again.
 * - Non-blocking, close-on-exec, and closed in the child of a fork.
 */
#include "sampler/unwind/memory.h"

#include "platform/address.h"
#include "platform/atomics.h"
#include "platform/sys.h"

#include <errno.h>
#include <fcntl.h>

#define PIPE_LANES 8u
#define PIPE_FREE 0u
#define PIPE_TAKEN 1u
#define PIPE_NUMBERS 64u /* below the limit of descriptors, or below 1024: select() of a host may end there */
#define PIPE_LIMIT 1024u
#define PIPE_RLIMIT_NOFILE 7 /* linux: asm-generic/resource.h, the same on both architectures */

typedef struct pipe_lane {
  uint32_t state; /* PIPE_*; who has set it to TAKEN owns the rest */
  int32_t file;   /* 0: none (a host may well give us 0, but the numbers that we ask for are higher) */
  int32_t process;
  uint32_t reserved;
  uint64_t device, inode;
  uint64_t status[32]; /* struct stat: its first two words are st_dev and st_ino on both architectures */
} pipe_lane;

static pipe_lane pipe_lanes[PIPE_LANES];
static const uint32_t *pipe_process_word; /* publish / observe; NULL: only the process id tells */

static ONSTACK_HANDLER bool pipe_take(pipe_lane *lane) {
  uint32_t expected = PIPE_FREE;
  return onstack_cas(&lane->state, &expected, PIPE_TAKEN);
}

static ONSTACK_HANDLER void pipe_give_back(pipe_lane *lane) { onstack_publish(&lane->state, PIPE_FREE); }

/* The descriptor still leads to the pipe that was made, here or in the process that made this one. */
static ONSTACK_HANDLER bool pipe_is_there(pipe_lane *lane) {
  return lane->file != 0 && onstack_sys_call2(SYS_fstat, lane->file, (long)lane->status) == 0 &&
         lane->status[0] == lane->device && lane->status[1] == lane->inode;
}

static ONSTACK_HANDLER bool pipe_is_ours(pipe_lane *lane) {
  const uint32_t *word = onstack_observe(&pipe_process_word);
  return lane->process == onstack_sys_getpid() && (!word || onstack_load_relaxed(word) != 0) && pipe_is_there(lane);
}

/* The lane is taken and ours. What is left in the pipe, or comes out of it unasked, ends its use. */
static ONSTACK_HANDLER bool pipe_pass(pipe_lane *lane, uint64_t address, uint64_t words[2]) {
  long wrote = onstack_sys_call3(SYS_write, lane->file, (long)address, 16);
  if (wrote <= 0) return false;
  long got = onstack_sys_call3(SYS_read, lane->file, (long)words, 16);
  if (got != wrote) lane->process = 0;
  return wrote == 16 && got == 16;
}

ONSTACK_HANDLER bool onstack_memory_pipe_pair(uint64_t address, uint64_t words[2]) {
  /* Threads begin at different lanes: their signal stacks are apart. */
  uint32_t begin = (uint32_t)((uint64_t)(uintptr_t)words >> 13);
  for (uint32_t i = 0; i < PIPE_LANES; i++) {
    pipe_lane *lane = &pipe_lanes[(begin + i) % PIPE_LANES];
    if (onstack_load_relaxed(&lane->file) == 0 || !pipe_take(lane)) continue;
    bool ours = pipe_is_ours(lane);
    bool good = ours && pipe_pass(lane, address, words);
    pipe_give_back(lane);
    if (ours) return good;
  }
  return false;
}

/* ---- ordinary threads ---- */

/* The lowest number to ask for. */
static int32_t pipe_lowest_number(void) {
  uint64_t limits[2] = {PIPE_LIMIT, PIPE_LIMIT}; /* soft and hard */
  onstack_sys_call4(SYS_prlimit64, 0, PIPE_RLIMIT_NOFILE, 0, (long)limits);
  uint64_t limit = limits[0] < PIPE_LIMIT ? limits[0] : PIPE_LIMIT;
  return limit > 2 * PIPE_NUMBERS ? (int32_t)(limit - PIPE_NUMBERS) : 3;
}

/* `path` ends with the directory of descriptors, and has room for a number. */
static long pipe_open_in(char *path, uint32_t length, int32_t file) {
  uint32_t digits = 1;
  for (int32_t rest = file; rest >= 10; rest /= 10) digits++;
  for (uint32_t i = digits; i > 0; i--, file /= 10) path[length + i - 1] = (char)('0' + file % 10);
  return onstack_sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
}

/* Opens the pipe behind `file` once more, for both directions. The first thread, whose descriptors /proc/self shows, may have
   ended or may have a table of its own; Linux before 3.17 has no thread-self. */
static long pipe_open_both(int32_t file) {
  char calling[32] = "/proc/thread-self/fd/", first[32] = "/proc/self/fd/";
  const long both = pipe_open_in(calling, 21, file);
  return both != -ENOENT ? both : pipe_open_in(first, 14, file);
}

static void pipe_make(pipe_lane *lane) {
  int32_t ends[2];
  if (onstack_sys_call2(SYS_pipe2, (long)ends, O_NONBLOCK | O_CLOEXEC) != 0) return;
  long both = pipe_open_both(ends[0]);
  onstack_sys_call1(SYS_close, ends[0]);
  onstack_sys_call1(SYS_close, ends[1]);
  if (both < 0) return;
  long high = onstack_sys_call3(SYS_fcntl, both, F_DUPFD_CLOEXEC, pipe_lowest_number());
  onstack_sys_call1(SYS_close, both);
  if (high <= 0) return;
  if (onstack_sys_call2(SYS_fstat, high, (long)lane->status) != 0) {
    onstack_sys_call1(SYS_close, high);
    return;
  }
  lane->device = lane->status[0];
  lane->inode = lane->status[1];
  lane->process = onstack_sys_getpid();
  onstack_store_relaxed(&lane->file, (int32_t)high);
}

/* A pipe that proves to be another's by now is left to its owner; a look that failed for want of memory proves nothing. */
static void pipe_drop(pipe_lane *lane) {
  for (int looks = 0; looks < 3; looks++) {
    if (!pipe_is_there(lane)) continue;
    onstack_sys_call1(SYS_close, lane->file);
    break;
  }
  onstack_store_relaxed(&lane->file, 0);
}

void onstack_memory_pipe_set_process_word(const uint32_t *word) { onstack_publish(&pipe_process_word, word); }

bool onstack_memory_pipe_open(void) {
  bool any = false;
  for (uint32_t i = 0; i < PIPE_LANES; i++) {
    pipe_lane *lane = &pipe_lanes[i];
    if (!pipe_take(lane)) continue;
    if (lane->file != 0 && !pipe_is_ours(lane)) pipe_drop(lane);
    if (lane->file == 0) pipe_make(lane);
    any = any || lane->file != 0;
    pipe_give_back(lane);
  }
  return any;
}

void onstack_memory_pipe_close(void) {
  for (uint32_t i = 0; i < PIPE_LANES; i++) {
    pipe_lane *lane = &pipe_lanes[i];
    if (onstack_load_relaxed(&lane->file) == 0 || !pipe_take(lane)) continue;
    pipe_drop(lane);
    pipe_give_back(lane);
  }
}

void onstack_memory_pipe_after_fork(void) {
  for (uint32_t i = 0; i < PIPE_LANES; i++) {
    pipe_lane *lane = &pipe_lanes[i];
    if (lane->file != 0) pipe_drop(lane); /* taken or not: the walk that has it is not in this process */
    lane->state = PIPE_FREE;
  }
}

static bool pipe_self_test(const void *good, const void *bad) {
  uint64_t words[2];
  if (!onstack_memory_pipe_open()) return false;
  if (onstack_memory_pipe_pair((uint64_t)(uintptr_t)good, words) &&
      !onstack_memory_pipe_pair((uint64_t)(uintptr_t)bad, words))
    return true;
  onstack_memory_pipe_close();
  return false;
}

static ONSTACK_HANDLER bool pipe_read_pair(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  (void)memory;
  return onstack_memory_pipe_pair(address, words);
}

ONSTACK_INTERNAL_DEFINE const onstack_reader onstack_reader_pipe = {"pipe", pipe_self_test, pipe_read_pair};

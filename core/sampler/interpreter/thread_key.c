/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/thread_key.h"

#include "platform/process_memory.h"
#include "sampler/unwind/stack_bounds.h"

#include <pthread.h>

#define KEY_REACH 4096      /* bytes around the thread pointer that are searched */
#define KEY_FIRST_BLOCK 32u /* glibc (nptl/descr.h, PTHREAD_KEY_2NDLEVEL_SIZE): keys that lie in struct pthread itself */
#define KEY_MOST 1024u      /* PTHREAD_KEYS_MAX */

typedef struct key_test {
  pthread_key_t keys[2];
  uint64_t marks[2];
  uint64_t pointer;
} key_test;

static bool key_read(uint64_t address, uint64_t *word) {
  return onstack_process_memory_copy(address, word, sizeof(*word)) == sizeof(*word);
}

/* glibc: pairs of a sequence number and a value in struct pthread. */
static bool key_find_direct(const key_test *test, uint32_t key, onstack_thread_key *place) {
  if (key >= KEY_FIRST_BLOCK || test->keys[0] >= KEY_FIRST_BLOCK || test->keys[1] >= KEY_FIRST_BLOCK) return false;
  const int64_t apart = ((int64_t)test->keys[1] - (int64_t)test->keys[0]) * 16;
  for (int64_t at = -KEY_REACH; at < KEY_REACH; at += 8) {
    uint64_t words[2];
    if (!key_read(test->pointer + (uint64_t)at, &words[0]) || words[0] != test->marks[0]) continue;
    if (!key_read(test->pointer + (uint64_t)(at + apart), &words[1]) || words[1] != test->marks[1]) continue;
    *place = (onstack_thread_key){.offset = at + ((int64_t)key - (int64_t)test->keys[0]) * 16};
    return true;
  }
  return false;
}

/* musl: an array of values, whose address is in struct pthread (src/internal/pthread_impl.h, tsd). */
static bool key_find_indirect(const key_test *test, uint32_t key, onstack_thread_key *place) {
  if (key >= KEY_MOST) return false;
  for (int64_t at = -KEY_REACH / 8; at < KEY_REACH / 8; at += 8) {
    uint64_t array, word;
    bool is = key_read(test->pointer + (uint64_t)at, &array) && array != 0 && !(array & 7);
    for (int i = 0; is && i < 2; i++) is = key_read(array + 8 * (uint64_t)test->keys[i], &word) && word == test->marks[i];
    if (!is) continue;
    *place = (onstack_thread_key){.offset = at, .index = key, .indirect = true};
    return true;
  }
  return false;
}

bool onstack_thread_key_find(uint32_t key, onstack_thread_key *place) {
  key_test test = {.pointer = onstack_thread_pointer()};
  if (test.pointer == 0 || pthread_key_create(&test.keys[0], NULL) != 0) return false;
  bool found = pthread_key_create(&test.keys[1], NULL) == 0;
  if (found) {
    for (int i = 0; i < 2; i++) {
      test.marks[i] = (uint64_t)(uintptr_t)&test.marks[i]; /* no other word near the thread pointer has these */
      pthread_setspecific(test.keys[i], &test.marks[i]);
    }
    found = key_find_direct(&test, key, place) || key_find_indirect(&test, key, place);
    pthread_key_delete(test.keys[1]);
  }
  pthread_key_delete(test.keys[0]);
  return found;
}

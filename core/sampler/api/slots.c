/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/api/session.h"

#include "platform/process.h"
#include "platform/sys.h"
#include "sampler/api/options.h"
#include "sampler/session/code_map_update.h"
#include "platform/loader.h"
#include "sampler/modules/modules.h"
#include "sampler/source/discovery.h"
#include "sampler/source/threads.h"
#include "sampler/source/arm.h"
#include "sampler/unwind/memory.h"
#include "sampler/signal/own_threads.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

static pthread_mutex_t control_lock = PTHREAD_MUTEX_INITIALIZER;
static int32_t control_owner; /* thread id of the holder, 0: nobody */

#define SLOT_POPULATE ((size_t)1 << 19) /* of a larger buffer only so much is made resident at once */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* linux/mman.h, since 5.14 */
#endif

/* Behind the ring: zero pages are a pool of which nothing is taken. */
#define SLOT_KEPT_BYTES (((sizeof(onstack_kept) * ONSTACK_KEPT_STACKS) + 4095) & ~(size_t)4095)

bool onstack_control_lock(void) {
  int32_t self = onstack_sys_gettid();
  if (onstack_load_relaxed(&control_owner) == self) return false;
  pthread_mutex_lock(&control_lock);
  onstack_store_relaxed(&control_owner, self);
  return true;
}

bool onstack_control_try_lock(void) {
  if (pthread_mutex_trylock(&control_lock) != 0) return false;
  onstack_store_relaxed(&control_owner, onstack_sys_gettid());
  return true;
}

void onstack_control_unlock(void) {
  onstack_store_relaxed(&control_owner, 0);
  pthread_mutex_unlock(&control_lock);
}

/* Everything that the first start of the process does, and later ones find done. */
static int slots_prepare(void) {
  int result = onstack_threads_prepare();
  if (result == 0) onstack_pin_self();
  return result;
}

/* After a start that failed: no timer has an address in the region if there was no session before. */
static void slots_unprepare(void) {
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++)
    if (onstack_load_relaxed(&onstack_slots[i].generation) != 0) return;
  onstack_threads_unprepare();
}

static int slot_take_memory(onstack_slot_memory *has, const onstack_settings *settings) {
  size_t bytes = settings->buffer_bytes + SLOT_KEPT_BYTES;
  if (has->bytes < bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return -errno;
    onstack_own_memory_keeps(memory, bytes);
    *has = (onstack_slot_memory){memory, bytes};
  }
  /* The first round through the ring would take a page fault every few samples, inside the handler: several
     microseconds each. A kernel before 5.14 does not know the call; then it does. */
  bytes = settings->buffer_bytes;
  madvise(has->memory, bytes < SLOT_POPULATE ? bytes : SLOT_POPULATE, MADV_POPULATE_WRITE);
  return 0;
}

/* Without the kernel's copy nothing of an interpreter can be read safely. */
static void slot_fill_interpreters(onstack_slot *slot, const onstack_interpreter_list *list) {
  memset(slot->interpreters, 0, sizeof(slot->interpreters));
  slot->interpreter_count = slot->copy_works ? list->count : 0;
  for (uint32_t i = 0; i < slot->interpreter_count; i++) slot->interpreters[i].provider = list->providers[i];
}

/*
 * Returns clock_gettime in the vDSO (vdso(7)), or NULL: then the handler uses the system call.
 *
 * Looked up by hand because dlsym and libc's clock_gettime go through the dynamic linker, whose lazy binding would run
 * on the signal stack. The kernel maps the image before main and never changes it, so it is trusted.
 */
static onstack_vdso_clock_gettime slot_find_clock_gettime(void) {
  const uint8_t *base = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
  if (!base) return NULL;
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)base;
  const Elf64_Phdr *segments = (const Elf64_Phdr *)(const void *)(base + header->e_phoff);
  uint64_t dynamic = 0, bias = 0;
  bool loaded = false;
  onstack_loaded_symbols image;
  for (uint32_t i = 0; i < header->e_phnum; i++) {
    if (segments[i].p_type == PT_LOAD && !loaded) {
      bias = (uint64_t)(uintptr_t)base + segments[i].p_offset - segments[i].p_vaddr;
      loaded = true;
    } else if (segments[i].p_type == PT_DYNAMIC) {
      dynamic = (uint64_t)(uintptr_t)base + segments[i].p_offset;
    }
  }
  if (!loaded || !dynamic) return NULL;
  if (!onstack_loaded_symbols_read(dynamic, bias, &image)) return NULL;
  Elf64_Sym symbol;
  if (!onstack_loaded_symbols_find(&image, ONSTACK_VDSO_CLOCK_GETTIME, STT_NOTYPE, &symbol)) return NULL;
  return (onstack_vdso_clock_gettime)(uintptr_t)(bias + symbol.st_value);
}

static void slot_fill(onstack_slot *slot, const onstack_settings *settings) {
  const onstack_source *source = settings->source;
  uint32_t index = (uint32_t)(slot - onstack_slots);
  slot->index = index;
  onstack_store_relaxed(&slot->generation, slot->generation + 1); /* others ask by it whether a session is still there */
  slot->signal = settings->signal;
  slot->period = settings->period;
  slot->source = source;
  slot->timers = NULL;
  slot->kind = source->kind;
  slot->weight_max = settings->weight_max;
  slot->stack_bytes = settings->stack_bytes;
  slot->unwinder = settings->unwinder;
  slot->custom = settings->custom;
  slot->own_threads = settings->own_threads;
  slot->says_states = false;
  slot->runnable_ns = NULL;
  slot->label_bytes = settings->label_bytes;
  onstack_store_relaxed(&slot->process_clock, NULL);
  slot->process_start_ns = 0;
  slot->meets = 0;
  slot->reader = onstack_reader_choose(&slot->copy_works);
  slot->clock_gettime = slot_find_clock_gettime();
  slot->wake = slot->pauses = slot->bounds_requested = slot->scanning = slot->handing_on = 0;
  onstack_store_relaxed(&slot->sink_tid, 0); /* other threads ask each slot whether they are in a sink */
  memset(&slot->counters, 0, sizeof(slot->counters));
  memset(slot->lost, 0, sizeof(slot->lost));
  memset(slot->periods, 0, sizeof(slot->periods));
  slot->periods[slot->kind] = settings->period;
  slot->object_base = 0;
  onstack_thread_table_init(&slot->threads, index);
  const bool keeps = slot->copy_works && slot->unwinder->needs_rules;
  const onstack_slot_memory *memory = &slot->memory;
  slot->kept = keeps ? (onstack_kept *)(void *)((uint8_t *)memory->memory + memory->bytes - SLOT_KEPT_BYTES) : NULL;
  onstack_ring_init(&slot->ring, memory->memory, settings->buffer_bytes, settings->depth,
                    settings->label_bytes + source->label_bytes);
  slot->worker = (onstack_worker){.work = NULL};
  slot->discovery = (onstack_discovery){.scan_age_ns = 0};
  slot->ticker.name = NULL;
  slot_fill_interpreters(slot, &settings->interpreters);
}

int onstack_slot_take(const onstack_settings *settings, onstack_slot **out) {
  const char *fault;
  int result = slots_prepare();
  if (result < 0) return result;
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_slot *slot = &onstack_slots[i];
    if (onstack_observe(&slot->state) != ONSTACK_SLOT_FREE) continue;
    /* The parent has looked; a fork handler does not read files. */
    if (!settings->resumed && (result = onstack_settings_check_host(settings, &fault)) < 0) return result;
    if ((result = slot_take_memory(&slot->memory, settings)) < 0) {
      slots_unprepare();
      return result;
    }
    onstack_threads_stay();
    slot_fill(slot, settings);
    onstack_publish(&slot->state, ONSTACK_SLOT_STARTING);
    *out = slot;
    return 0;
  }
  return ONSTACK_E_SESSIONS;
}

void onstack_slot_give_back(onstack_slot *slot) {
  onstack_slot_memory *memory = &slot->memory;
  onstack_threads_clear(slot);
  if (slot->source->drop) slot->source->drop(slot);
  /* Zero pages again: that is an empty ring, and no memory while no session runs. */
  madvise(memory->memory, memory->bytes, MADV_DONTNEED);
  onstack_publish(&slot->state, ONSTACK_SLOT_FREE);
}

bool onstack_slots_in_sink(int32_t tid) {
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++)
    if (onstack_load_relaxed(&onstack_slots[i].sink_tid) == tid) return true;
  return false;
}

void onstack_slots_after_fork(void) {
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_slot *slot = &onstack_slots[i];
    /* Of a free one as well: a thread of the parent may have been on its way in, to see that the session is over. */
    memset(&slot->visits, 0, sizeof(slot->visits));
    if (slot->state == ONSTACK_SLOT_FREE) continue;
    if (slot->source->drop) slot->source->drop(slot);
    slot->generation++; /* handles of the parent's sessions are stopped ones here */
    for (uint32_t r = 0; r < ONSTACK_THREAD_RECORDS; r++) {
      onstack_thread *record = &slot->threads.records[r];
      if (slot->threads.tids[r] == 0) continue;
      onstack_timer_after_fork(&record->timer); /* POSIX timers are not inherited (timer_create(2)) */
      record->busy = 0;
      onstack_seqlock_after_fork(&record->lock);
      onstack_thread_release(&slot->threads, record);
    }
    onstack_store_relaxed(&slot->process_clock, NULL);
    if (slot->memory.memory) madvise(slot->memory.memory, slot->memory.bytes, MADV_DONTNEED);
    slot->sink_tid = 0;
    slot->state = ONSTACK_SLOT_FREE;
  }
  onstack_discovery_after_fork();
  onstack_timers_held = onstack_timers_left = 0;
  onstack_own_after_fork();
  control_owner = 0;
  control_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  onstack_code_map_after_fork();
  onstack_loader_after_fork();
  onstack_modules_after_fork();
}

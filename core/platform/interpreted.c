/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/interpreted.h"

#include "platform/atomics.h"
#include "platform/calls.h"
#include "platform/process.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define NAMES_FUNCTIONS 65536u /* a power of two; the first one is the frame without a name */
#define NAMES_TEXT ((size_t)1 << 24)
#define NAMES_PLACES (2u * NAMES_FUNCTIONS)
#define NAMES_UNNAMED "[function gone]"
#define NAMES_TEXT_SIZE_0_1 ((size_t)800)
_Static_assert(offsetof(onstack_frame_text, language) + 16 == NAMES_TEXT_SIZE_0_1, "grows at the end");

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0 /* FreeBSD reserves nothing anyway (mmap(2)) */
#endif

typedef struct names_function {
  uint32_t text; /* where its name begins, behind that its file, and its language */
  uint32_t start_line;
} names_function;

typedef struct names_table {
  names_function functions[NAMES_FUNCTIONS];
  uint32_t places[NAMES_PLACES]; /* by hash: a function's number; 0: nobody's */
  char text[NAMES_TEXT];
} names_table;

static pthread_mutex_t names_describing = PTHREAD_MUTEX_INITIALIZER; /* one provider names at a time; before names_lock */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;       /* guards additions; what was published never changes */
static names_table *names;                                           /* publish / observe */
static uint32_t names_count;                                         /* publish / observe */
static size_t names_used;

/* Mapped rather than allocated: a child of fork inherits no lock of malloc's from the consumer's thread. */
static bool names_open(void) {
  if (names) return true;
  void *memory = mmap(NULL, sizeof(*names), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  onstack_own_memory_keeps(memory, sizeof(*names));
  names_table *table = memory;
  memcpy(table->text, NAMES_UNNAMED, sizeof(NAMES_UNNAMED)); /* the others are the NULs behind it */
  names_used = sizeof(NAMES_UNNAMED) + 2;
  onstack_publish(&names, table);
  onstack_publish(&names_count, 1u);
  return true;
}

static uint32_t names_hash(uint32_t hash, const char *text) {
  for (; *text; text++) hash = (hash ^ (uint8_t)*text) * 16777619u; /* FNV-1a */
  return (hash ^ 0xff) * 16777619u;
}

static const char *names_next(const char *text) { return text + strlen(text) + 1; }

static bool names_same(const names_function *function, const char *language, const onstack_frame_text *text) {
  const char *name = names->text + function->text, *file = names_next(name);
  return function->start_line == text->start_line && strcmp(name, text->function) == 0 && strcmp(file, text->file) == 0 &&
         strcmp(names_next(file), language) == 0;
}

/* With the lock held. 0: there is no room. */
static uint32_t names_add(const char *language, const onstack_frame_text *text, uint32_t *place) {
  const char *const parts[] = {text->function, text->file, language};
  const uint32_t number = names_count;
  size_t used = names_used;
  if (number == NAMES_FUNCTIONS || NAMES_TEXT - used < sizeof(*text)) return 0;
  for (size_t i = 0; i < ONSTACK_COUNT_OF(parts); i++) {
    const size_t bytes = strlen(parts[i]) + 1;
    memcpy(names->text + used, parts[i], bytes);
    used += bytes;
  }
  names->functions[number] = (names_function){(uint32_t)names_used, text->start_line};
  names_used = used;
  *place = number;
  onstack_publish(&names_count, number + 1);
  return number;
}

static uint32_t names_find_or_add(const char *language, const onstack_frame_text *text) {
  uint32_t at = names_hash(names_hash(2166136261u ^ text->start_line, text->function), text->file) % NAMES_PLACES;
  for (; names->places[at] != 0; at = (at + 1) % NAMES_PLACES)
    if (names_same(&names->functions[names->places[at]], language, text)) return names->places[at];
  return names_add(language, text, &names->places[at]);
}

uint64_t onstack_interpreted_number(const char *language, const onstack_frame_text *text) {
  uint32_t number = 0;
  if (!text) return ONSTACK_INTERPRETED_ADDRESS(0, 0);
  pthread_mutex_lock(&names_lock);
  if (names_open()) number = names_find_or_add(language, text);
  pthread_mutex_unlock(&names_lock);
  return ONSTACK_INTERPRETED_ADDRESS(number, number == 0 ? 0 : text->line);
}

bool onstack_interpreted_is_unnamed(uint64_t address) { return ONSTACK_INTERPRETED_FUNCTION(address) == 0; }

uint32_t onstack_copied_read(uint64_t address, void *to, uint32_t bytes) {
  return onstack_process_memory_read(address, to, bytes);
}

uint32_t onstack_copied_read_word(uint64_t address, uint64_t *word) {
  return onstack_copied_read(address, word, sizeof(*word));
}

ONSTACK_INTERNAL_DEFINE const onstack_frame_memory onstack_copied_memory = {.read = onstack_copied_read,
                                                                            .read_own = onstack_copied_read_word};

static void names_describe(const onstack_frame_provider *provider, onstack_interpreted_frame *frame) {
  ONSTACK_STOP_EXCEPTIONS;
  onstack_frame_text text = {.size = sizeof(text)};
  const bool named = provider->describe(provider->data, &onstack_copied_memory, frame, &text) == 0;
  text.function[sizeof(text.function) - 1] = text.file[sizeof(text.file) - 1] = 0;
  frame->function = onstack_interpreted_number(provider->name, named ? &text : NULL);
  if (text.flags & ONSTACK_TEXT_NATIVE)
    frame->flags = (frame->flags & ~ONSTACK_INTERPRETED_ENTRY) | ONSTACK_INTERPRETED_OF_NATIVE;
}

void onstack_interpreted_name_all(const onstack_frame_provider *provider, onstack_interpreted_frame *frames,
                                  uint32_t count) {
  pthread_mutex_lock(&names_describing);
  for (uint32_t i = 0; i < count; i++)
    if (!(frames[i].flags & ONSTACK_INTERPRETED_EMPTY)) names_describe(provider, &frames[i]);
  pthread_mutex_unlock(&names_describing);
}

void onstack_interpreted_after_fork(void) {
  names_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  names_describing = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void names_copy(char *to, size_t size, const char *from) {
  const size_t length = strlen(from) < size ? strlen(from) : size - 1;
  memcpy(to, from, length);
  to[length] = 0;
}

ONSTACK_API int onstack_interpreted_describe(uint64_t frame, onstack_frame_text *text) {
  onstack_frame_text described = {.size = sizeof(described)};
  const uint32_t number = ONSTACK_INTERPRETED_FUNCTION(frame);
  if (!text || !onstack_is_interpreted(frame)) return ONSTACK_E_OPTIONS;
  if (number != 0 && number >= onstack_observe(&names_count)) return ONSTACK_E_OPTIONS;
  const names_table *table = onstack_observe(&names);
  const char *name = number == 0 || !table ? NAMES_UNNAMED "\0\0" : table->text + table->functions[number].text;
  const char *file = names_next(name);
  names_copy(described.function, sizeof(described.function), name);
  names_copy(described.file, sizeof(described.file), file);
  names_copy(described.language, sizeof(described.language), names_next(file));
  described.line = ONSTACK_INTERPRETED_LINE(frame);
  described.start_line = number == 0 ? 0 : table->functions[number].start_line;
  return onstack_sized_fill(text, NAMES_TEXT_SIZE_0_1, &described, sizeof(described));
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/profile.h"

#include "platform/atomics.h"
#include "platform/process.h"
#include "platform/interpreted.h"
#include "platform/calls.h"
#include "profile/maps/maps.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ONSTACK_PROFILE_DEFAULT_STACKS ((size_t)1 << 20)
/* Code that no mapping explains (generated code, wild addresses) asks for new mappings with each new stack. */
#define ONSTACK_PROFILE_MAPS_PAUSE_NS ((uint64_t)250 * 1000 * 1000)

typedef struct profile_sums {
  uint64_t samples, weight, value;
} profile_sums;

struct onstack_profile {
  bool thread_names; /* these four never change */
  bool thread_ids;
  size_t max_stacks;
  uint32_t timeline_bytes;
  pthread_mutex_t lock;           /* covers what follows, and the reference counts of what it points to */
  onstack_profile_stacks *stacks; /* NULL: no samples yet */
  onstack_profile_history history;
  bool maps_stale;       /* a sample lay outside all known mappings */
  uint64_t maps_read_ns; /* monotonic */
  uint64_t start_ns;     /* monotonic */
  int64_t start_unix_ns;
  profile_sums sums[ONSTACK_KINDS];
  uint64_t frames[ONSTACK_MAX_DEPTH]; /* of the sample that is being counted, as the stacks have them */
};

static void profile_restart_clock(onstack_profile *profile) {
  profile->start_unix_ns = (int64_t)onstack_clock_ns(CLOCK_REALTIME);
  profile->start_ns = onstack_monotonic_ns();
}

/* With the lock held. Returns a set that the caller frees, or NULL. */
static onstack_profile_maps *profile_reread_maps(onstack_profile *profile, bool keep_retired) {
  onstack_profile_maps *now = profile->history.maps, *old = onstack_profile_history_read(&profile->history, keep_retired);
  profile->maps_read_ns = onstack_monotonic_ns();
  if (profile->history.maps != now) profile->maps_stale = false;
  return old;
}

static void profile_free_maps(onstack_profile_maps *maps) {
  if (maps) onstack_profile_maps_free(maps);
}

static int profile_apply_options(onstack_profile *profile, const onstack_profile_options *given) {
  onstack_profile_options options = {0};
  int error = !given ? 0 : onstack_sized_copy(&options, sizeof(options), 0, given);
  if (error == 0) error = onstack_switch_read(options.thread_names, &profile->thread_names);
  if (error == 0) error = onstack_switch_read(options.thread_ids, &profile->thread_ids);
  if (options.reserved0[0] != 0 || options.reserved0[1] != 0) error = ONSTACK_E_OPTIONS;
  profile->max_stacks = options.max_stacks == 0 ? ONSTACK_PROFILE_DEFAULT_STACKS : options.max_stacks;
  profile->timeline_bytes = options.timeline_bytes;
  return error;
}

static int profile_make(const onstack_profile_options *options, onstack_profile **out) {
  if (!out) return ONSTACK_E_OPTIONS;
  *out = NULL;
  onstack_profile *profile = calloc(1, sizeof(*profile));
  if (!profile) return -ENOMEM;
  int error = profile_apply_options(profile, options);
  bool open = error == 0 && (error = onstack_profile_history_open(&profile->history)) == 0;
  if (error == 0) error = -pthread_mutex_init(&profile->lock, NULL);
  if (error != 0) {
    if (open) onstack_profile_history_close(&profile->history);
    free(profile);
    return error;
  }
  profile_restart_clock(profile);
  profile->maps_read_ns = profile->start_ns;
  *out = profile;
  return 0;
}

ONSTACK_API int onstack_profile_new(const onstack_profile_options *options, onstack_profile **out) {
  ONSTACK_UNCANCELLED;
  onstack_ours++;
  const int error = profile_make(options, out);
  onstack_ours--;
  return error;
}

ONSTACK_API void onstack_profile_free(onstack_profile *profile) {
  ONSTACK_UNCANCELLED;
  if (!profile) return;
  if (profile->stacks && onstack_profile_stacks_drop(profile->stacks)) {
    onstack_profile_stacks_free(profile->stacks);
  }
  onstack_profile_history_close(&profile->history);
  pthread_mutex_destroy(&profile->lock);
  free(profile);
}

/* Those of the clock come on top of the session's. */
#define PROFILE_LABEL_BYTES (2u * ONSTACK_MAX_LABEL_BYTES)

/* Pairs of strings that end inside. */
static bool profile_labels_are_sound(const onstack_sample *sample) {
  uint32_t strings = 0;
  if (sample->label_bytes == 0) return true;
  if (!sample->labels || sample->label_bytes > PROFILE_LABEL_BYTES) return false;
  for (uint32_t i = 0; i < sample->label_bytes; i++) strings += sample->labels[i] == '\0';
  return strings % 2 == 0 && sample->labels[sample->label_bytes - 1] == '\0';
}

#define PROFILE_SAMPLE_SIZE_0_1 ((size_t)88)
_Static_assert(offsetof(onstack_sample, object) == PROFILE_SAMPLE_SIZE_0_1, "grows at the end");

/* Only an end has none. */
static bool profile_frames_are_sound(const onstack_sample *sample) {
  return (sample->flags & ONSTACK_SAMPLE_FREED) ? sample->kind == ONSTACK_KIND_ALLOCATION : sample->frame_count > 0;
}

static bool profile_sample_is_sound(const onstack_sample *sample) {
  return sample->frames && profile_frames_are_sound(sample) && sample->frame_count <= ONSTACK_MAX_DEPTH &&
         sample->weight > 0 && onstack_kind_unit(sample->kind) != 0 && sample->unit == onstack_kind_unit(sample->kind) &&
         profile_labels_are_sound(sample);
}

/* The look-up address of a frame: inside the call for a return address. One of 0 cannot be: it stays, and gets no name. */
static uint64_t profile_address(const onstack_sample *sample, uint32_t frame) {
  const uint64_t address = sample->frames[frame];
  return frame > 0 && address != 0 && !onstack_is_interpreted(address) ? address - 1 : address;
}

static void profile_take_frames(onstack_profile *profile, const onstack_sample *sample) {
  for (uint32_t i = 0; i < sample->frame_count; i++) {
    const uint64_t address = profile_address(sample, i);
    profile->frames[i] = onstack_is_interpreted(address)
                             ? address
                             : onstack_profile_history_resolve(&profile->history, address, sample->time_ns);
  }
}

/* Whether the mappings must be read before this sample is counted. Where libraries come and go all the time, samples outside of
   them need none. */
static bool profile_needs_maps(onstack_profile *profile, const onstack_sample *sample) {
  if (!onstack_profile_history_has_changed(&profile->history)) return false;
  for (uint32_t i = 0; i < sample->frame_count; i++) {
    const uint64_t address = profile_address(sample, i);
    if (!onstack_is_interpreted(address) && !onstack_profile_history_still_holds(&profile->history, address)) return true;
  }
  return false;
}

static onstack_profile_head profile_head(const onstack_profile *profile, const onstack_sample *sample) {
  onstack_profile_head key = {.truncation = sample->truncation, .kind = sample->kind, .period = sample->period};
  if (profile->thread_ids) key.tid = sample->tid;
  if (sample->label_bytes > 0) {
    key.labels = sample->labels;
    key.label_bytes = sample->label_bytes;
  }
  if (profile->thread_names && sample->thread_name) {
    memcpy(key.thread_name, sample->thread_name, strnlen(sample->thread_name, sizeof(key.thread_name) - 1));
  }
  return key;
}

/* With the lock held. Whether a frame of a new stack lies in code that was mapped since the mappings were read. Frames that
   follow each other mostly lie in one mapping. */
static bool profile_is_outside(const onstack_profile *profile, uint32_t frame_count) {
  const onstack_profile_mapping *mapping = NULL;
  for (uint32_t i = 0; i < frame_count; i++) {
    const uint64_t address = profile->frames[i];
    if (address == ONSTACK_MAPS_UNKNOWN || onstack_is_interpreted(address)) continue; /* the latter has its name */
    if (mapping && address >= mapping->start && address < mapping->limit) continue;
    mapping = onstack_profile_maps_find(profile->history.maps, address);
    if (!mapping) return true;
  }
  return false;
}

/* With the lock held. old[]: see profile_reread_maps. */
static int profile_count(onstack_profile *profile, const onstack_profile_head *head, const onstack_sample *sample,
                         onstack_profile_maps *old[2]) {
  bool added;
  if (profile_needs_maps(profile, sample)) old[0] = profile_reread_maps(profile, true);
  profile_take_frames(profile, sample);
  if (!profile->stacks) profile->stacks = onstack_profile_stacks_new(profile->timeline_bytes, profile->start_ns);
  if (!profile->stacks) return -ENOMEM;
  int error = onstack_profile_stacks_count(profile->stacks, head, profile->frames, sample, profile->max_stacks, &added);
  if (error != 0) return error;
  profile_sums *sums = &profile->sums[sample->kind];
  sums->samples++;
  sums->weight += sample->weight;
  sums->value += sample->value;
  if (added && profile_is_outside(profile, sample->frame_count)) profile->maps_stale = true;
  if (profile->maps_stale && onstack_monotonic_ns() - profile->maps_read_ns >= ONSTACK_PROFILE_MAPS_PAUSE_NS) {
    old[1] = profile_reread_maps(profile, true);
  }
  return 0;
}

static int profile_take_sample(onstack_profile *profile, const onstack_sample *sample) {
  if (sample->flags & ONSTACK_SAMPLE_FREED) {
    pthread_mutex_lock(&profile->lock);
    if (profile->stacks) onstack_profile_stacks_end(profile->stacks, sample->object);
    pthread_mutex_unlock(&profile->lock);
    return 0;
  }
  const onstack_profile_head head = profile_head(profile, sample);
  onstack_profile_maps *old[2] = {NULL, NULL};
  onstack_ours++;
  pthread_mutex_lock(&profile->lock);
  int error = profile_count(profile, &head, sample, old);
  pthread_mutex_unlock(&profile->lock);
  for (int i = 0; i < 2; i++) profile_free_maps(old[i]);
  onstack_ours--;
  return error;
}

ONSTACK_API int onstack_profile_sink(void *data, const onstack_sample *given) {
  ONSTACK_UNCANCELLED;
  onstack_profile *profile = data;
  onstack_sample sample;
  if (!profile || !given || onstack_sized_copy(&sample, sizeof(sample), PROFILE_SAMPLE_SIZE_0_1, given) != 0 ||
      !profile_sample_is_sound(&sample))
    return ONSTACK_E_OPTIONS;
  return profile_take_sample(profile, &sample);
}

/* With the lock of `from` held, and `to` new. What is shared with writers keeps its references. */
static void profile_move(onstack_profile *from, onstack_profile *to) {
  onstack_profile_history history = to->history;
  bool maps_stale = to->maps_stale;
  uint64_t maps_read_ns = to->maps_read_ns, start_ns = to->start_ns;
  int64_t start_unix_ns = to->start_unix_ns;
  to->stacks = from->stacks;
  to->history = from->history;
  to->maps_stale = from->maps_stale;
  to->maps_read_ns = from->maps_read_ns;
  to->start_ns = from->start_ns;
  to->start_unix_ns = from->start_unix_ns;
  memcpy(to->sums, from->sums, sizeof(to->sums));
  from->stacks = NULL;
  from->history = history;
  from->maps_stale = maps_stale;
  from->maps_read_ns = maps_read_ns;
  from->start_ns = start_ns;
  from->start_unix_ns = start_unix_ns;
  memset(from->sums, 0, sizeof(from->sums));
}

ONSTACK_API int onstack_profile_take(onstack_profile *profile, onstack_profile **out) {
  ONSTACK_UNCANCELLED;
  if (!out) return ONSTACK_E_OPTIONS;
  *out = NULL;
  if (!profile) return ONSTACK_E_OPTIONS;
  const onstack_profile_options options = {.size = sizeof(options),
                                           .thread_names = profile->thread_names ? ONSTACK_ON : ONSTACK_OFF,
                                           .thread_ids = profile->thread_ids ? ONSTACK_ON : ONSTACK_OFF,
                                           .max_stacks = (uint32_t)profile->max_stacks,
                                           .timeline_bytes = profile->timeline_bytes};
  int error = onstack_profile_new(&options, out);
  if (error != 0) return error;
  pthread_mutex_lock(&profile->lock);
  profile_move(profile, *out);
  pthread_mutex_unlock(&profile->lock);
  return 0;
}

ONSTACK_API void onstack_profile_clear(onstack_profile *profile) {
  ONSTACK_UNCANCELLED;
  if (!profile) return;
  pthread_mutex_lock(&profile->lock);
  onstack_profile_stacks *stacks = profile->stacks;
  if (stacks && !onstack_profile_stacks_drop(stacks)) stacks = NULL; /* a writer still reads it */
  profile->stacks = NULL;
  memset(profile->sums, 0, sizeof(profile->sums));
  profile_restart_clock(profile);
  onstack_profile_maps *old = profile_reread_maps(profile, false); /* no sample is left that needs what is gone */
  pthread_mutex_unlock(&profile->lock);
  if (stacks) onstack_profile_stacks_free(stacks);
  profile_free_maps(old);
}

/* What a thread that is not here may have been changing is left to itself. A set of mappings is never changed, and the
   pointer to that of now by one store: it is good as it is. */
ONSTACK_API void onstack_profile_after_fork(onstack_profile *profile) {
  if (!profile) return;
  bool sound = pthread_mutex_trylock(&profile->lock) == 0;
  onstack_profile_stacks *stacks = sound ? profile->stacks : NULL;
  profile->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  if (!sound) onstack_profile_history_after_fork(&profile->history);
  if (stacks && !onstack_profile_stacks_drop(stacks)) stacks = NULL;
  profile->stacks = NULL;
  memset(profile->sums, 0, sizeof(profile->sums));
  profile->maps_stale = true;
  profile->maps_read_ns = 0;
  profile_restart_clock(profile);
  if (stacks) onstack_profile_stacks_free(stacks);
}

ONSTACK_API void onstack_profile_totals(const onstack_profile *profile, onstack_kind kind, uint64_t *samples,
                                        uint64_t *weight, uint64_t *value) {
  profile_sums sums = {0};
  if (profile && kind < ONSTACK_KINDS) {
    pthread_mutex_t *lock =
        (pthread_mutex_t *)&profile->lock; /* const is the caller's view; a lock is no part of the value */
    pthread_mutex_lock(lock);
    sums = profile->sums[kind];
    pthread_mutex_unlock(lock);
  }
  if (samples) *samples = sums.samples;
  if (weight) *weight = sums.weight;
  if (value) *value = sums.value;
}

/* What was allocated after `until_ns` is not in use. With the lock held, and before stacks of other kinds are left out. */
static void profile_leave_out_young(const onstack_profile_held *held, uint64_t until_ns, onstack_profile_view *view) {
  for (size_t i = 0; i < held->capacity; i++) {
    const onstack_profile_held_object *object = &held->places[i];
    if (object->object == 0 || object->time_ns <= until_ns) continue;
    onstack_profile_stack *stack =
        object->stack == ONSTACK_PROFILE_HASH_NONE ? &view->overflow[ONSTACK_KIND_ALLOCATION] : &view->items[object->stack];
    stack->held_weight -= object->weight;
    stack->held_value -= object->value;
  }
}

static void profile_keep_only(onstack_kind only, onstack_profile_view *view) {
  size_t kept = 0;
  for (size_t i = 0; i < view->count; i++)
    if (view->items[i].head->kind == only) view->items[kept++] = view->items[i];
  view->count = kept;
}

/* With the lock held. */
static int profile_copy_stacks(const onstack_profile *profile, onstack_kind only, uint64_t age_ns,
                               onstack_profile_view *view) {
  const onstack_profile_stacks *stacks = profile->stacks;
  if (!stacks || stacks->count == 0) return 0;
  view->items = malloc(stacks->count * sizeof(*view->items));
  if (!view->items) return -ENOMEM;
  memcpy(view->items, stacks->items, stacks->count * sizeof(*view->items));
  view->count = stacks->count;
  view->addresses = malloc((stacks->address_count + 1) * sizeof(*view->addresses));
  if (!view->addresses) {
    free(view->items);
    return -ENOMEM;
  }
  for (size_t i = 0; i < stacks->address_count; i++) view->addresses[i] = stacks->addresses[i];
  view->address_count = stacks->address_count;
  view->times_kept = stacks->timeline.kept;
  view->times_lost = stacks->timeline.lost;
  for (onstack_kind kind = 1; kind < ONSTACK_KINDS; kind++) {
    if (profile->sums[kind].samples == 0 || (only != 0 && kind != only)) continue;
    view->kinds |= 1u << kind;
    view->overflow[kind] = stacks->overflow[kind];
  }
  const uint64_t now = onstack_monotonic_ns();
  if (age_ns > 0) profile_leave_out_young(&stacks->held, now > age_ns ? now - age_ns : 0, view);
  if (only != 0) profile_keep_only(only, view);
  view->stacks = profile->stacks;
  onstack_retain(&view->stacks->references);
  return 0;
}

int onstack_profile_view_take(onstack_profile *profile, onstack_kind only, uint64_t age_ns, onstack_profile_view *view) {
  *view = (onstack_profile_view){.thread_names = profile->thread_names};
  pthread_mutex_lock(&profile->lock);
  onstack_profile_maps *old = profile_reread_maps(profile, true);
  int error = profile_copy_stacks(profile, only, age_ns, view);
  if (error == 0) {
    view->maps = profile->history.maps;
    onstack_retain(&view->maps->references);
    view->start_unix_ns = profile->start_unix_ns;
    view->duration_ns = (int64_t)onstack_monotonic_ns() - (int64_t)profile->start_ns;
  }
  pthread_mutex_unlock(&profile->lock);
  profile_free_maps(old);
  return error;
}

void onstack_profile_view_release(onstack_profile *profile, onstack_profile_view *view) {
  free(view->items);
  free(view->addresses);
  pthread_mutex_lock(&profile->lock);
  bool last_stacks = view->stacks && onstack_profile_stacks_drop(view->stacks);
  bool last_maps = onstack_profile_maps_drop(view->maps);
  pthread_mutex_unlock(&profile->lock);
  if (last_stacks) onstack_profile_stacks_free(view->stacks);
  if (last_maps) onstack_profile_maps_free(view->maps);
  *view = (onstack_profile_view){0};
}

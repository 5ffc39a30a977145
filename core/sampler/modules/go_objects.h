/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The loaded objects, and where each has Go's sections by its file's section headers. Ordinary threads only. */
#ifndef ONSTACK_SAMPLER_MODULES_GO_OBJECTS_H
#define ONSTACK_SAMPLER_MODULES_GO_OBJECTS_H

#include "platform/loader.h"
#include "sampler/unwind/code_map.h"

#define ONSTACK_GO_SEGMENTS 12u /* linkers write four to six */

typedef struct onstack_go_object {
  uint64_t bias;
  uint64_t load; /* the loader's number (platform/loader.h); 0: not known */
  uint32_t segment_count;
  onstack_code_range segments[ONSTACK_GO_SEGMENTS]; /* loaded and readable; between them may be holes that fault */
  bool is_program;                                  /* the first one: it alone stays mapped whatever happens */
  char path[512];                                   /* "" for the program */
} onstack_go_object;

typedef struct onstack_go_object_list {
  /* The caller's: objects with numbers up to this one were looked at before and are left out; 0: none was. */
  uint64_t looked;
  uint64_t live[ONSTACK_GO_RUNTIMES]; /* numbers of those whose presence is asked for; 0: none */
  /* The answer: */
  bool live_is_there[ONSTACK_GO_RUNTIMES];
  onstack_go_object *objects; /* the caller frees them */
  uint32_t count, room;
  uint32_t length;   /* of the loader's list */
  uint32_t left_out; /* objects that there was no memory for */
  uint64_t last;     /* the highest number */
  onstack_loader_counts loaded;
} onstack_go_object_list;

typedef struct onstack_go_sections {
  uint64_t pclntab, pclntab_size; /* loaded addresses; 0: none */
  uint64_t module, module_size;
} onstack_go_sections;

/* Fills in the objects. */
ONSTACK_INTERNAL void onstack_go_objects_list(onstack_go_object_list *list);

/* 0 if the object has Go's function table. Reads its file, which may be another one by now. Errors: -errno; -ENOMEM, where
   that cannot be told. */
ONSTACK_INTERNAL int onstack_go_object_sections(const onstack_go_object *object, onstack_go_sections *sections);

/* True if all of it lies in one loaded segment. */
ONSTACK_INTERNAL bool onstack_go_object_holds(const onstack_go_object *object, uint64_t address, uint64_t size);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The distinct look-up addresses of a report and what is known of each: its functions, innermost first. It is also the
 * table that a host's symbolizer fills (the public onstack_symbol_table). One thread, one report; no lock.
 */
#ifndef ONSTACK_PROFILE_ELF_SYMBOL_TABLE_H
#define ONSTACK_PROFILE_ELF_SYMBOL_TABLE_H

#include "platform/defs.h"
#include "profile/maps/maps.h"
#include "profile/store/store.h"

#include "onstack/profile.h"

#define ONSTACK_PROFILE_NO_LINE UINT32_MAX

/* A function at an address; the strings by number. */
typedef struct onstack_profile_line {
  uint32_t name;        /* for people; never "" */
  uint32_t system_name; /* never "" */
  uint32_t file;        /* 0: unknown */
  uint32_t next;        /* the function that this one is inlined in; ONSTACK_PROFILE_NO_LINE: none */
  int64_t line;
  int64_t start_line;
} onstack_profile_line;

typedef struct onstack_profile_lines_of {
  uint32_t first; /* line; ONSTACK_PROFILE_NO_LINE: none */
  uint32_t last;
  bool named;      /* by a symbol; false: by module and offset, or not at all */
  uint32_t engine; /* the string that says who generated the code; 0: not known */
} onstack_profile_lines_of;

struct onstack_symbol_table {
  uint64_t *addresses; /* in the order of arrival; an address's position is its number */
  size_t count;
  size_t capacity;
  onstack_profile_hash_index index;
  onstack_profile_lines_of *lines_of; /* one an address; NULL until opened */
  onstack_profile_line *lines;
  size_t line_count;
  size_t line_capacity;
  onstack_profile_strings strings;
  size_t replaced; /* addresses of generated code whose samples may be of an earlier function than their name says */
  uint32_t *asked; /* the numbers that the host's symbolizer is asked for, in its order; NULL: it is not asked */
  size_t asked_count;
  int error; /* the first failure of an addition: a symbolizer may overlook it, the write must not */
};

ONSTACK_INTERNAL int onstack_profile_symbols_init(onstack_symbol_table *table);
ONSTACK_INTERNAL void onstack_profile_symbols_release(onstack_symbol_table *table);

/* Adds an address if it is new. Only before onstack_profile_symbols_open. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_symbols_add_address(onstack_symbol_table *table, uint64_t address);
/* Ends the additions of addresses and makes room for lines. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_symbols_open(onstack_symbol_table *table);

/* The number of an address that has been added. */
ONSTACK_INTERNAL uint32_t onstack_profile_symbols_number(const onstack_symbol_table *table, uint64_t address);

/* Adds a function of this name alone. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_symbols_name(onstack_symbol_table *table, uint32_t number, const char *name,
                                                  bool named);
/* Adds a function of these strings (size does not count); nothing without a name. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_symbols_add_line(onstack_symbol_table *table, uint32_t number,
                                                      const onstack_symbol_line *line);

/* Names for the addresses of a symbol table: from the host's symbolizer, from ELF files, from module and offset. */

/*
 * Asks the symbolizer (may be NULL), at once, for all addresses but those of files that others have taken the place of:
 * it knows what lies there now. Called without any lock of ours: it may take its time
 * and call this library. Errors: whatever it returns; -ENOMEM.
 */
ONSTACK_INTERNAL int onstack_profile_symbolize_by_host(onstack_symbol_table *table, const onstack_profile_maps *maps,
                                                       onstack_symbolizer symbolizer, void *data);

/* Names the addresses without a name by ELF symbols. Files that cannot be read name nothing. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_symbolize_by_elf(onstack_symbol_table *table, const onstack_profile_maps *maps);

/* Names what is left "libc.so.6+0x16db20", or "0x7f..." where nothing is mapped. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_symbolize_by_module(onstack_symbol_table *table, const onstack_profile_maps *maps);

/* Names for people, by the host's demangler. */

/* Asks the demangler (may be NULL) for each distinct name that is a symbol's alone. Called without any lock of ours.
   Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_demangle(onstack_symbol_table *table, onstack_demangler demangler, void *data);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tables of line numbers in CPython's code objects. Bytes of anybody's: nothing in them is believed. */
#ifndef ONSTACK_SAMPLER_INTERPRETER_PYTHON_LINES_H
#define ONSTACK_SAMPLER_INTERPRETER_PYTHON_LINES_H

#include "platform/defs.h"

/* The line of a position (bytes of code), by the table of a version (0x030b); 0: the table does not say. */
ONSTACK_INTERNAL uint32_t onstack_python_line(uint16_t version, const uint8_t *table, size_t size, uint32_t first_line,
                                              uint32_t position);

#endif

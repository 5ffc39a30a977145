/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/interpreter/print.h"

ONSTACK_INTERNAL_DEFINE uint64_t onstack_print_named[ONSTACK_PRINT_PLACES];

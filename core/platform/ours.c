/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/ours.h"

ONSTACK_INTERNAL_DEFINE __thread uint32_t onstack_ours ONSTACK_OURS_MODEL;

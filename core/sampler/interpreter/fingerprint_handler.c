/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/fingerprint.h"

ONSTACK_INTERNAL_DEFINE uint64_t onstack_fingerprint_named[ONSTACK_FINGERPRINT_PLACES];

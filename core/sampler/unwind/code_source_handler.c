/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/code_source.h"

ONSTACK_INTERNAL_DEFINE const onstack_code_source *onstack_code_source_used = &onstack_code_source_frame_pointers;

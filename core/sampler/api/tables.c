/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/uncancelled.h"
#include "sampler/modules/table_files.h"
#include "onstack/onstack.h"

int onstack_tables_keep_in(const char *directory) {
  ONSTACK_UNCANCELLED;
  return onstack_table_files_use(directory);
}

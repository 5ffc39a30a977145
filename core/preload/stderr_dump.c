/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/stderr_dump.h"

#include "onstack/onstack.h"
#include "preload/complain.h"

#include <string.h>

static int dump_say(void *data, const void *bytes, size_t length) {
  (void)data;
  return onstack_say(bytes, length) ? 0 : 1;
}

void onstack_preload_dump(void) {
  const int result = onstack_dump(NULL, dump_say, NULL);
  if (result == 0)
    onstack_say("\n", 1);
  else if (result != ONSTACK_E_OUTPUT) /* that would go the same way */
    onstack_complain("no dump: %s", result > -4096 ? strerror(-result) : onstack_strerror(result));
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/session/pin.h"

#include "platform/loader.h"

#include <dlfcn.h>

/* Weak: in a static program there is no dynamic linker to ask, and nothing that could be closed. */
#pragma weak dlopen
#pragma weak dladdr

void onstack_pin_self(void) {
  static bool pinned;
  Dl_info info;
  if (pinned || !dlopen || !dladdr) return;
  pinned = true;
  onstack_loader_enter();
  if (dladdr((const void *)(uintptr_t)onstack_pin_self, &info) && info.dli_fname)
    dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY); /* fails for the main program: never closed */
  onstack_loader_leave();
}

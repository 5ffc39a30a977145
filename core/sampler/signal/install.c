/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/install.h"

#include <errno.h>
#include <signal.h>

/*
 * An action as libc makes it, for what it adds: the restorer and its flag. Ours has them too, because debuggers and
 * unwinders know libc's restorer. Taken from the first handler that is installed. libc's sigaction alone will not do: it
 * leaves its own signals out of every mask (asynchronous cancellation would then unwind a thread out of our handler, with
 * its ring entry claimed for ever), and who interposes it, a preload or a sanitizer, may install something else.
 */
static struct onstack_kernel_sigaction install_model;
static bool install_has_model;

static const uint64_t install_flags =
    (uint64_t)(uint32_t)(SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER | SA_RESETHAND | SA_NOCLDSTOP | SA_NOCLDWAIT);

static struct onstack_kernel_sigaction install_make(uint64_t handler, uint64_t flags, onstack_kernel_sigset mask) {
  struct onstack_kernel_sigaction made = install_model;
  made.handler = handler;
  made.flags = flags | (install_model.flags & ~install_flags);
  made.mask = mask & ~(ONSTACK_SIGBIT(SIGKILL) | ONSTACK_SIGBIT(SIGSTOP)); /* as the kernel keeps it */
  return made;
}

static int install_first(int signal, uint64_t handler, int flags, const struct onstack_kernel_sigaction *now,
                         struct onstack_kernel_sigaction *was) {
  struct sigaction first = {.sa_flags = flags}, old;
  first.sa_sigaction = (void (*)(int, siginfo_t *, void *))(uintptr_t)handler;
  sigfillset(&first.sa_mask);
  if (sigaction(signal, &first, &old) != 0) return -errno;
  int result = onstack_sys_sigaction(signal, NULL, &install_model);
  if (result < 0) return result;
  install_has_model = true;
  *was = *now;
  /* libc hides the restorer of what was there; who came between had libc's, or needs none. */
  if ((uint64_t)(uintptr_t)old.sa_sigaction != now->handler)
    *was = install_make((uint64_t)(uintptr_t)old.sa_sigaction, (uint64_t)(uint32_t)old.sa_flags,
                        *(const onstack_kernel_sigset *)(const void *)&old.sa_mask);
  return 0;
}

int onstack_install(int signal, uint64_t handler, int flags, const struct onstack_kernel_sigaction *now,
                    struct onstack_kernel_sigaction *installed, struct onstack_kernel_sigaction *was) {
  struct onstack_kernel_sigaction between;
  const bool first = !install_has_model;
  int result = first ? install_first(signal, handler, flags, now, was) : 0;
  if (result < 0) return result;
  const onstack_kernel_sigset open = flags & SA_NODEFER ? ONSTACK_SIGBIT(signal) : 0;
  *installed = install_make(handler, (uint64_t)(uint32_t)flags, ~open);
  /* To where it is wanted, not by way of a variable: handlers read it there already. */
  result = onstack_sys_sigaction(signal, installed, first ? &between : was);
  if (result == 0 && first && between.handler != handler) *was = between;
  return result;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Raw system calls that return -errno and never touch errno: safe in the signal handler (no libc, no PLT, no
 * thread-local storage). One chooser; each architecture supplies onstack_sys_call6, and the vDSO's
 * name for clock_gettime.
 */
#ifndef ONSTACK_PLATFORM_SYS_H
#define ONSTACK_PLATFORM_SYS_H

#include "platform/defs.h"

#include <sys/syscall.h>

#if defined(__x86_64__)
#include "platform/sys_x86_64.h"
#elif defined(__aarch64__)
#include "platform/sys_aarch64.h"
#else
#error "onstack: this architecture is not supported (x86_64 and aarch64 are)"
#endif

#define ONSTACK_SYS_INLINE static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER

ONSTACK_SYS_INLINE long onstack_sys_call1(long number, long a) { return onstack_sys_call6(number, a, 0, 0, 0, 0, 0); }
ONSTACK_SYS_INLINE long onstack_sys_call2(long number, long a, long b) {
  return onstack_sys_call6(number, a, b, 0, 0, 0, 0);
}
ONSTACK_SYS_INLINE long onstack_sys_call3(long number, long a, long b, long c) {
  return onstack_sys_call6(number, a, b, c, 0, 0, 0);
}
ONSTACK_SYS_INLINE long onstack_sys_call4(long number, long a, long b, long c, long d) {
  return onstack_sys_call6(number, a, b, c, d, 0, 0);
}

ONSTACK_SYS_INLINE int32_t onstack_sys_gettid(void) { return (int32_t)onstack_sys_call1(SYS_gettid, 0); }
ONSTACK_SYS_INLINE int32_t onstack_sys_getpid(void) { return (int32_t)onstack_sys_call1(SYS_getpid, 0); }

/* The kernel's signal set: 64 bits on both architectures, whatever libc's sigset_t looks like. */
typedef uint64_t onstack_kernel_sigset;
#define ONSTACK_SIGBIT(signal) ((onstack_kernel_sigset)1 << ((signal)-1))

/* Raw rt_sigprocmask; `set` or `old` may be NULL. */
ONSTACK_SYS_INLINE int onstack_sys_sigprocmask(int how, const onstack_kernel_sigset *set, onstack_kernel_sigset *old) {
  return (int)onstack_sys_call4(SYS_rt_sigprocmask, how, (long)set, (long)old, sizeof(onstack_kernel_sigset));
}

/* FUTEX_WAKE_PRIVATE / FUTEX_WAIT_PRIVATE on a 32-bit word (linux/futex.h; the numbers are ABI). */
#define ONSTACK_FUTEX_WAIT_PRIVATE 128
#define ONSTACK_FUTEX_WAKE_PRIVATE 129

ONSTACK_SYS_INLINE void onstack_sys_futex_wake(uint32_t *word) {
  onstack_sys_call3(SYS_futex, (long)word, ONSTACK_FUTEX_WAKE_PRIVATE, 1);
}

struct onstack_timespec {
  int64_t seconds;
  int64_t nanoseconds;
};

ONSTACK_SYS_INLINE void onstack_sys_futex_wait(uint32_t *word, uint32_t value, const struct onstack_timespec *timeout) {
  onstack_sys_call4(SYS_futex, (long)word, ONSTACK_FUTEX_WAIT_PRIVATE, value, (long)timeout);
}

/* Sleeps for less than a second; a signal may end the sleep early. Signal-safe: unlike libc's nanosleep it keeps errno. */
ONSTACK_SYS_INLINE void onstack_sys_sleep(uint32_t nanoseconds) {
  const struct onstack_timespec pause = {0, nanoseconds};
  uint32_t nobody_wakes = 0;
  onstack_sys_futex_wait(&nobody_wakes, 0, &pause);
}

/* POSIX timers with the kernel's own structures (linux/signal.h), the same for every libc. */
struct onstack_kernel_sigevent {
  uint64_t value;
  int32_t signal;
  int32_t notify;
  int32_t tid;
  int32_t pad[11];
};
struct onstack_kernel_itimerspec {
  struct onstack_timespec interval;
  struct onstack_timespec value;
};
#define ONSTACK_SIGEV_SIGNAL 0
#define ONSTACK_SIGEV_THREAD_ID 4

ONSTACK_SYS_INLINE int onstack_sys_timer_create(int32_t clock, struct onstack_kernel_sigevent *event, int32_t *timer) {
  return (int)onstack_sys_call3(SYS_timer_create, clock, (long)event, (long)timer);
}
/* `old` may be NULL. */
ONSTACK_SYS_INLINE int onstack_sys_timer_settime(int32_t timer, int flags, const struct onstack_kernel_itimerspec *spec,
                                                 struct onstack_kernel_itimerspec *old) {
  return (int)onstack_sys_call4(SYS_timer_settime, timer, flags, (long)spec, (long)old);
}
ONSTACK_SYS_INLINE int onstack_sys_timer_gettime(int32_t timer, struct onstack_kernel_itimerspec *spec) {
  return (int)onstack_sys_call2(SYS_timer_gettime, timer, (long)spec);
}
ONSTACK_SYS_INLINE int onstack_sys_timer_delete(int32_t timer) { return (int)onstack_sys_call1(SYS_timer_delete, timer); }

/* struct iovec of the kernel. */
struct onstack_vector {
  uint64_t base, length;
};

/* Copies memory of this process under the kernel's fault handling. Returns the bytes copied, or -errno. The calling thread's id
   names the process: after its first thread has ended, the process's own id fails with ESRCH. The id comes from a system call,
   because the child of a raw clone must not read its parent. */
ONSTACK_SYS_INLINE long onstack_sys_process_vm_readv(const struct onstack_vector *local, uint32_t locals,
                                                     const struct onstack_vector *remote, uint32_t remotes) {
  return onstack_sys_call6(SYS_process_vm_readv, onstack_sys_gettid(), (long)local, (long)locals, (long)remote,
                           (long)remotes, 0);
}

/* The kernel's sigaction: what libc hides (restorer) and changes (flags) is visible here. arm64 has the restorer as well:
   SA_RESTORER in its asm/signal.h. */
struct onstack_kernel_sigaction {
  uint64_t handler;
  uint64_t flags;
  uint64_t restorer;
  onstack_kernel_sigset mask;
};
_Static_assert(sizeof(struct onstack_kernel_sigaction) == 32, "the kernel writes as much");

ONSTACK_SYS_INLINE int onstack_sys_sigaction(int signal, const struct onstack_kernel_sigaction *action,
                                             struct onstack_kernel_sigaction *old) {
  return (int)onstack_sys_call4(SYS_rt_sigaction, signal, (long)action, (long)old, sizeof(onstack_kernel_sigset));
}

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "calls.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>

#define CALL(name, error)                                                                                                   \
  { SYS_##name, #name, error, NULL, NULL }
#define NEEDED(name, error, why)                                                                                            \
  { SYS_##name, #name, error, NULL, why }
#define EXEMPT(name, why)                                                                                                   \
  { SYS_##name, #name, EPERM, why, NULL }

static const call_kind call_kinds[] = {
    CALL(mmap, ENOMEM),
    CALL(munmap, ENOMEM),
    CALL(mprotect, ENOMEM),
    CALL(madvise, EINVAL),
    NEEDED(brk, ENOMEM, "libc takes any error for success"),
    CALL(mremap, ENOMEM),
    CALL(timer_create, EAGAIN),
    CALL(timer_settime, EPERM),
    CALL(timer_gettime, EINVAL),
    CALL(timer_delete, EPERM),
    CALL(rt_sigaction, EINVAL),
    CALL(rt_sigprocmask, EINVAL),
    CALL(clone, EAGAIN),
    CALL(clone3, EAGAIN),
    CALL(openat, EMFILE),
    CALL(newfstatat, ENOMEM),
    CALL(fstat, ENOMEM),
    CALL(read, EIO),
    CALL(pread64, EIO),
    CALL(write, ENOSPC),
    CALL(lseek, EINVAL),
    EXEMPT(close, "Linux closes the descriptor whatever it returns"),
    CALL(getdents64, ENOENT),
    CALL(readlinkat, EACCES),
    CALL(process_vm_readv, EPERM),
    NEEDED(futex, EINTR, "libc ends the program (the futex facility returned an unexpected error code)"),
    CALL(prctl, EINVAL),
    CALL(prlimit64, EPERM),
    CALL(uname, EFAULT),
    CALL(sysinfo, EFAULT),
    CALL(pipe2, EMFILE),
    CALL(fcntl, EMFILE),
    CALL(clock_gettime, EINVAL),
    CALL(clock_nanosleep, EINTR),
    CALL(sigaltstack, EPERM),
    CALL(rt_tgsigqueueinfo, EAGAIN),
    CALL(tgkill, EAGAIN),
    CALL(sched_yield, EPERM),
    CALL(sched_getaffinity, EINVAL),
    CALL(close_range, ENOMEM),
    CALL(pidfd_open, EPERM),
    CALL(pidfd_getfd, EPERM),
    CALL(getcwd, ENOENT),
    CALL(getrandom, EAGAIN),
    CALL(renameat, ENOSPC),
    CALL(unlinkat, EIO),
    CALL(linkat, ENOSPC),
    CALL(faccessat, EACCES),
#if defined(__x86_64__)
    CALL(readlink, EACCES),
    CALL(open, EMFILE),
    CALL(rename, ENOSPC),
    CALL(unlink, EIO),
    CALL(access, EACCES),
    CALL(arch_prctl, EINVAL),
#endif
    EXEMPT(gettid, "has no failure, and every thread's identity rests on it"),
    EXEMPT(getpid, "has no failure"),
    EXEMPT(exit, "has no failure"),
    EXEMPT(exit_group, "has no failure"),
    EXEMPT(rt_sigreturn, "has no failure: the kernel kills where it cannot return"),
    EXEMPT(set_robust_list, "libc's own, while a thread begins"),
    EXEMPT(rseq, "libc's own, while a thread begins"),
};

const call_kind *call_find(int number) {
  static char name[16];
  static call_kind unknown;
  for (size_t i = 0; i < sizeof(call_kinds) / sizeof(call_kinds[0]); i++)
    if (call_kinds[i].number == number) return &call_kinds[i];
  snprintf(name, sizeof(name), "call %d", number);
  unknown = (call_kind){number, name, EPERM, NULL, NULL};
  return &unknown;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/call_names.h"

#include <sys/syscall.h>

/* Those that can last; the others are told by number. Each architecture lacks some. */
static const struct {
  int64_t number;
  onstack_call_name is;
} call_names[] = {
    {SYS_futex, {"futex", ONSTACK_CALL_ON_WORD}},
    {SYS_read, {"read", ONSTACK_CALL_ON_FILE}},
    {SYS_write, {"write", ONSTACK_CALL_ON_FILE}},
    {SYS_readv, {"readv", ONSTACK_CALL_ON_FILE}},
    {SYS_writev, {"writev", ONSTACK_CALL_ON_FILE}},
    {SYS_pread64, {"pread64", ONSTACK_CALL_ON_FILE}},
    {SYS_pwrite64, {"pwrite64", ONSTACK_CALL_ON_FILE}},
    {SYS_preadv, {"preadv", ONSTACK_CALL_ON_FILE}},
    {SYS_pwritev, {"pwritev", ONSTACK_CALL_ON_FILE}},
    {SYS_recvfrom, {"recvfrom", ONSTACK_CALL_ON_FILE}},
    {SYS_recvmsg, {"recvmsg", ONSTACK_CALL_ON_FILE}},
    {SYS_recvmmsg, {"recvmmsg", ONSTACK_CALL_ON_FILE}},
    {SYS_sendto, {"sendto", ONSTACK_CALL_ON_FILE}},
    {SYS_sendmsg, {"sendmsg", ONSTACK_CALL_ON_FILE}},
    {SYS_sendmmsg, {"sendmmsg", ONSTACK_CALL_ON_FILE}},
    {SYS_sendfile, {"sendfile", ONSTACK_CALL_ON_FILE}},
    {SYS_splice, {"splice", ONSTACK_CALL_ON_FILE}},
    {SYS_accept, {"accept", ONSTACK_CALL_ON_FILE}},
    {SYS_accept4, {"accept4", ONSTACK_CALL_ON_FILE}},
    {SYS_connect, {"connect", ONSTACK_CALL_ON_FILE}},
    {SYS_fsync, {"fsync", ONSTACK_CALL_ON_FILE}},
    {SYS_fdatasync, {"fdatasync", ONSTACK_CALL_ON_FILE}},
    {SYS_sync_file_range, {"sync_file_range", ONSTACK_CALL_ON_FILE}},
    {SYS_ftruncate, {"ftruncate", ONSTACK_CALL_ON_FILE}},
    {SYS_fallocate, {"fallocate", ONSTACK_CALL_ON_FILE}},
    {SYS_flock, {"flock", ONSTACK_CALL_ON_FILE}},
    {SYS_fcntl, {"fcntl", ONSTACK_CALL_ON_FILE}},
    {SYS_ioctl, {"ioctl", ONSTACK_CALL_ON_FILE}},
    {SYS_close, {"close", ONSTACK_CALL_ON_FILE}},
    {SYS_getdents64, {"getdents64", ONSTACK_CALL_ON_FILE}},
    {SYS_io_getevents, {"io_getevents", ONSTACK_CALL_ON_NOTHING}},
    {SYS_io_uring_enter, {"io_uring_enter", ONSTACK_CALL_ON_FILE}},
    {SYS_epoll_pwait, {"epoll_pwait", ONSTACK_CALL_ON_FILE}},
    {SYS_ppoll, {"ppoll", ONSTACK_CALL_ON_FILES}},
    {SYS_pselect6, {"pselect6", ONSTACK_CALL_ON_NOTHING}},
    {SYS_nanosleep, {"nanosleep", ONSTACK_CALL_ON_NOTHING}},
    {SYS_clock_nanosleep, {"clock_nanosleep", ONSTACK_CALL_ON_NOTHING}},
    {SYS_wait4, {"wait4", ONSTACK_CALL_ON_NOTHING}},
    {SYS_waitid, {"waitid", ONSTACK_CALL_ON_NOTHING}},
    {SYS_rt_sigtimedwait, {"rt_sigtimedwait", ONSTACK_CALL_ON_NOTHING}},
    {SYS_rt_sigsuspend, {"rt_sigsuspend", ONSTACK_CALL_ON_NOTHING}},
    {SYS_restart_syscall, {"restart_syscall", ONSTACK_CALL_ON_NOTHING}},
    {SYS_openat, {"openat", ONSTACK_CALL_ON_NOTHING}},
    {SYS_unlinkat, {"unlinkat", ONSTACK_CALL_ON_NOTHING}},
    {SYS_renameat2, {"renameat2", ONSTACK_CALL_ON_NOTHING}},
    {SYS_execve, {"execve", ONSTACK_CALL_ON_NOTHING}},
    {SYS_msgrcv, {"msgrcv", ONSTACK_CALL_ON_NOTHING}},
    {SYS_msgsnd, {"msgsnd", ONSTACK_CALL_ON_NOTHING}},
    {SYS_semop, {"semop", ONSTACK_CALL_ON_NOTHING}},
    {SYS_semtimedop, {"semtimedop", ONSTACK_CALL_ON_NOTHING}},
    {SYS_mq_timedreceive, {"mq_timedreceive", ONSTACK_CALL_ON_FILE}},
    {SYS_mq_timedsend, {"mq_timedsend", ONSTACK_CALL_ON_FILE}},
    {SYS_mmap, {"mmap", ONSTACK_CALL_ON_NOTHING}},
    {SYS_munmap, {"munmap", ONSTACK_CALL_ON_NOTHING}},
    {SYS_mprotect, {"mprotect", ONSTACK_CALL_ON_NOTHING}},
    {SYS_madvise, {"madvise", ONSTACK_CALL_ON_NOTHING}},
    {SYS_msync, {"msync", ONSTACK_CALL_ON_NOTHING}},
    {SYS_getrandom, {"getrandom", ONSTACK_CALL_ON_NOTHING}},
    {SYS_membarrier, {"membarrier", ONSTACK_CALL_ON_NOTHING}},
#ifdef SYS_poll
    {SYS_poll, {"poll", ONSTACK_CALL_ON_FILES}},
    {SYS_select, {"select", ONSTACK_CALL_ON_NOTHING}},
    {SYS_epoll_wait, {"epoll_wait", ONSTACK_CALL_ON_FILE}},
    {SYS_pause, {"pause", ONSTACK_CALL_ON_NOTHING}},
    {SYS_open, {"open", ONSTACK_CALL_ON_NOTHING}},
    {SYS_fork, {"fork", ONSTACK_CALL_ON_NOTHING}},
    {SYS_vfork, {"vfork", ONSTACK_CALL_ON_NOTHING}},
#endif
    {SYS_clone, {"clone", ONSTACK_CALL_ON_NOTHING}}, /* by vfork's flag, until the child has another program */
#ifdef SYS_clone3
    {SYS_clone3, {"clone3", ONSTACK_CALL_ON_NOTHING}},
#endif
#ifdef SYS_epoll_pwait2
    {SYS_epoll_pwait2, {"epoll_pwait2", ONSTACK_CALL_ON_FILE}},
#endif
#ifdef SYS_futex_waitv
    {SYS_futex_waitv, {"futex_waitv", ONSTACK_CALL_ON_NOTHING}},
#endif
};

onstack_call_name onstack_call_name_of(int64_t number) {
  for (size_t i = 0; i < ONSTACK_COUNT_OF(call_names); i++)
    if (call_names[i].number == number) return call_names[i].is;
  return (onstack_call_name){0};
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "filter.h"

#include "plan.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Linux 5.19: once the checker has a call in its hands, a signal does not take it back. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

static int filter_install(const struct sock_filter *code, unsigned length, unsigned long flags) {
  struct sock_fprog program = {(unsigned short)length, (struct sock_filter *)code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* needed without CAP_SYS_ADMIN */
  long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  return result < 0 ? -errno : (int)result; /* TSYNC: never positive, all threads have the same filters */
}

static int filter_one(int call, uint32_t action, unsigned long flags) {
  const struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  return filter_install(code, sizeof(code) / sizeof(code[0]), flags);
}

/* Not the one that hands the descriptor over, nor those that return nothing. */
static int filter_every(unsigned long flags) {
  const struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  return filter_install(code, sizeof(code) / sizeof(code[0]), flags);
}

/* An allow list, as a worker installs it behind its set-up: what it needs to compute, to reply and to end. And what has no
   failure elsewhere (calls.c): who asks for its own id relies on the result. */
static int filter_most(uint32_t action, unsigned long flags) {
  static const int allowed[] = {
      SYS_read, SYS_write,      SYS_futex,           SYS_brk,    SYS_mmap,  SYS_munmap, SYS_madvise, SYS_rt_sigreturn,
      SYS_exit, SYS_exit_group, SYS_restart_syscall, SYS_getpid, SYS_gettid};
  enum { COUNT = sizeof(allowed) / sizeof(allowed[0]) };
  struct sock_filter code[COUNT + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  for (unsigned i = 0; i < COUNT; i++)
    code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed[i], (uint8_t)(COUNT - i), 0);
  code[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
  code[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  return filter_install(code, COUNT + 3, flags);
}

static int filter_show(int call) {
  unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
  return call == PLAN_EVERY_CALL ? filter_every(flags) : filter_one(call, SECCOMP_RET_USER_NOTIF, flags);
}

int filter_deny(int call, int error) {
  uint32_t action = SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA);
  if (call == PLAN_MOST_CALLS) return filter_most(action, SECCOMP_FILTER_FLAG_TSYNC);
  return filter_one(call, action, SECCOMP_FILTER_FLAG_TSYNC);
}

static void filter_send(int socket, int fd) {
  char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof(int));
  sendmsg(socket, &message, 0);
}

int filter_show_over(int socket, int call) {
  int fd = filter_show(call);
  if (fd < 0) return fd;
  filter_send(socket, fd);
  close(fd);
  return 0;
}

int filter_receive(int socket) {
  char control[CMSG_SPACE(sizeof(int))] = {0}, byte;
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
  int fd = -1;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) <= 0) return -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header && header->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return fd;
}

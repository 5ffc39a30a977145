/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/look.h"

#include "platform/defs.h"
#include "platform/sys.h"
#include "sampler/unwind/memory.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define WAIT_ON_BYTES 128u

/* ---- system calls by name ---- */

/* What a call's first argument is. */
typedef enum wait_call_object {
  WAIT_CALL_ON_NOTHING,
  WAIT_CALL_ON_FILE,  /* a descriptor */
  WAIT_CALL_ON_WORD,  /* the address of a futex's word */
  WAIT_CALL_ON_FILES, /* the address of struct pollfd[], and their number */
} wait_call_object;

typedef struct wait_call {
  const char *name; /* static; NULL: not one of those that threads wait in */
  wait_call_object object;
} wait_call;

/* Those that can last; the others are told by number. Each architecture lacks some. */
static const struct {
  int64_t number;
  wait_call is;
} call_names[] = {
    {SYS_futex, {"futex", WAIT_CALL_ON_WORD}},
    {SYS_read, {"read", WAIT_CALL_ON_FILE}},
    {SYS_write, {"write", WAIT_CALL_ON_FILE}},
    {SYS_readv, {"readv", WAIT_CALL_ON_FILE}},
    {SYS_writev, {"writev", WAIT_CALL_ON_FILE}},
    {SYS_pread64, {"pread64", WAIT_CALL_ON_FILE}},
    {SYS_pwrite64, {"pwrite64", WAIT_CALL_ON_FILE}},
    {SYS_preadv, {"preadv", WAIT_CALL_ON_FILE}},
    {SYS_pwritev, {"pwritev", WAIT_CALL_ON_FILE}},
    {SYS_recvfrom, {"recvfrom", WAIT_CALL_ON_FILE}},
    {SYS_recvmsg, {"recvmsg", WAIT_CALL_ON_FILE}},
    {SYS_recvmmsg, {"recvmmsg", WAIT_CALL_ON_FILE}},
    {SYS_sendto, {"sendto", WAIT_CALL_ON_FILE}},
    {SYS_sendmsg, {"sendmsg", WAIT_CALL_ON_FILE}},
    {SYS_sendmmsg, {"sendmmsg", WAIT_CALL_ON_FILE}},
    {SYS_sendfile, {"sendfile", WAIT_CALL_ON_FILE}},
    {SYS_splice, {"splice", WAIT_CALL_ON_FILE}},
    {SYS_accept, {"accept", WAIT_CALL_ON_FILE}},
    {SYS_accept4, {"accept4", WAIT_CALL_ON_FILE}},
    {SYS_connect, {"connect", WAIT_CALL_ON_FILE}},
    {SYS_fsync, {"fsync", WAIT_CALL_ON_FILE}},
    {SYS_fdatasync, {"fdatasync", WAIT_CALL_ON_FILE}},
    {SYS_sync_file_range, {"sync_file_range", WAIT_CALL_ON_FILE}},
    {SYS_ftruncate, {"ftruncate", WAIT_CALL_ON_FILE}},
    {SYS_fallocate, {"fallocate", WAIT_CALL_ON_FILE}},
    {SYS_flock, {"flock", WAIT_CALL_ON_FILE}},
    {SYS_fcntl, {"fcntl", WAIT_CALL_ON_FILE}},
    {SYS_ioctl, {"ioctl", WAIT_CALL_ON_FILE}},
    {SYS_close, {"close", WAIT_CALL_ON_FILE}},
    {SYS_getdents64, {"getdents64", WAIT_CALL_ON_FILE}},
    {SYS_io_getevents, {"io_getevents", WAIT_CALL_ON_NOTHING}},
    {SYS_io_uring_enter, {"io_uring_enter", WAIT_CALL_ON_FILE}},
    {SYS_epoll_pwait, {"epoll_pwait", WAIT_CALL_ON_FILE}},
    {SYS_ppoll, {"ppoll", WAIT_CALL_ON_FILES}},
    {SYS_pselect6, {"pselect6", WAIT_CALL_ON_NOTHING}},
    {SYS_nanosleep, {"nanosleep", WAIT_CALL_ON_NOTHING}},
    {SYS_clock_nanosleep, {"clock_nanosleep", WAIT_CALL_ON_NOTHING}},
    {SYS_wait4, {"wait4", WAIT_CALL_ON_NOTHING}},
    {SYS_waitid, {"waitid", WAIT_CALL_ON_NOTHING}},
    {SYS_rt_sigtimedwait, {"rt_sigtimedwait", WAIT_CALL_ON_NOTHING}},
    {SYS_rt_sigsuspend, {"rt_sigsuspend", WAIT_CALL_ON_NOTHING}},
    {SYS_restart_syscall, {"restart_syscall", WAIT_CALL_ON_NOTHING}},
    {SYS_openat, {"openat", WAIT_CALL_ON_NOTHING}},
    {SYS_unlinkat, {"unlinkat", WAIT_CALL_ON_NOTHING}},
    {SYS_renameat2, {"renameat2", WAIT_CALL_ON_NOTHING}},
    {SYS_execve, {"execve", WAIT_CALL_ON_NOTHING}},
    {SYS_msgrcv, {"msgrcv", WAIT_CALL_ON_NOTHING}},
    {SYS_msgsnd, {"msgsnd", WAIT_CALL_ON_NOTHING}},
    {SYS_semop, {"semop", WAIT_CALL_ON_NOTHING}},
    {SYS_semtimedop, {"semtimedop", WAIT_CALL_ON_NOTHING}},
    {SYS_mq_timedreceive, {"mq_timedreceive", WAIT_CALL_ON_FILE}},
    {SYS_mq_timedsend, {"mq_timedsend", WAIT_CALL_ON_FILE}},
    {SYS_mmap, {"mmap", WAIT_CALL_ON_NOTHING}},
    {SYS_munmap, {"munmap", WAIT_CALL_ON_NOTHING}},
    {SYS_mprotect, {"mprotect", WAIT_CALL_ON_NOTHING}},
    {SYS_madvise, {"madvise", WAIT_CALL_ON_NOTHING}},
    {SYS_msync, {"msync", WAIT_CALL_ON_NOTHING}},
    {SYS_getrandom, {"getrandom", WAIT_CALL_ON_NOTHING}},
    {SYS_membarrier, {"membarrier", WAIT_CALL_ON_NOTHING}},
#ifdef SYS_poll
    {SYS_poll, {"poll", WAIT_CALL_ON_FILES}},
    {SYS_select, {"select", WAIT_CALL_ON_NOTHING}},
    {SYS_epoll_wait, {"epoll_wait", WAIT_CALL_ON_FILE}},
    {SYS_pause, {"pause", WAIT_CALL_ON_NOTHING}},
    {SYS_open, {"open", WAIT_CALL_ON_NOTHING}},
    {SYS_fork, {"fork", WAIT_CALL_ON_NOTHING}},
    {SYS_vfork, {"vfork", WAIT_CALL_ON_NOTHING}},
#endif
    {SYS_clone, {"clone", WAIT_CALL_ON_NOTHING}}, /* by vfork's flag, until the child has another program */
#ifdef SYS_clone3
    {SYS_clone3, {"clone3", WAIT_CALL_ON_NOTHING}},
#endif
#ifdef SYS_epoll_pwait2
    {SYS_epoll_pwait2, {"epoll_pwait2", WAIT_CALL_ON_FILE}},
#endif
#ifdef SYS_futex_waitv
    {SYS_futex_waitv, {"futex_waitv", WAIT_CALL_ON_NOTHING}},
#endif
};

static wait_call wait_call_of(int64_t number) {
  for (size_t i = 0; i < ONSTACK_COUNT_OF(call_names); i++)
    if (call_names[i].number == number) return call_names[i].is;
  return (wait_call){0};
}

/* ---- labels ---- */

typedef struct wait_text {
  char *out;
  uint32_t used;
} wait_text;

/* A label with a value of at most WAIT_ON_BYTES, a longer one is cut. */
static void wait_add(wait_text *text, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void wait_add(wait_text *text, const char *key, const char *format, ...) {
  va_list arguments;
  const uint32_t length = (uint32_t)strlen(key) + 1;
  memcpy(text->out + text->used, key, length);
  va_start(arguments, format);
  const int written = vsnprintf(text->out + text->used + length, WAIT_ON_BYTES, format, arguments);
  va_end(arguments);
  if (written <= 0) return; /* an empty value: no label */
  text->used += length + ((uint32_t)written < WAIT_ON_BYTES ? (uint32_t)written : WAIT_ON_BYTES - 1) + 1;
}

static const char *wait_state(char letter) {
  switch (letter) {
  case 'D':
    return "uninterruptible";
  case 'T':
  case 't':
    return "stopped";
  default:
    return "blocked";
  }
}

/* ---- descriptors ---- */

#define WAIT_PIDFD_OPEN 434 /* on each architecture; older libcs do not name them */
#define WAIT_PIDFD_GETFD 438

static const char *wait_transport(int file) {
  int type = 0;
  socklen_t length = sizeof(type);
  if (getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &length) != 0) return "socket";
  return type == SOCK_STREAM ? "tcp" : type == SOCK_DGRAM ? "udp" : "socket";
}

/* A value's characters: an abstract unix address may hold any. */
static void wait_make_printable(char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
}

/* False: of another family, or no name. */
static bool wait_address(const struct sockaddr_storage *address, socklen_t length, char *out, size_t room) {
  char host[INET6_ADDRSTRLEN];
  if (address->ss_family == AF_INET) {
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
    snprintf(out, room, "%s:%u", inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host)), ntohs(in->sin_port));
    return true;
  }
  if (address->ss_family == AF_INET6) {
    const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)address;
    snprintf(out, room, "[%s]:%u", inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof(host)), ntohs(in->sin6_port));
    return true;
  }
  const size_t path = offsetof(struct sockaddr_un, sun_path);
  if (address->ss_family != AF_UNIX || length <= path) return false;
  const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)address;
  const bool is_abstract = un->sun_path[0] == 0;
  snprintf(out, room, "%s%.*s", is_abstract ? "@" : "", (int)(length - path - is_abstract), un->sun_path + is_abstract);
  wait_make_printable(out);
  return out[0] != 0;
}

/* "tcp 10.0.0.7:5432", the peer; of one that listens its own address. */
static void wait_on_socket(wait_text *text, int file) {
  struct sockaddr_storage address;
  socklen_t length = sizeof(address);
  char name[WAIT_ON_BYTES];
  const char *which = "";
  bool named = getpeername(file, (struct sockaddr *)&address, &length) == 0;
  if (!named) {
    length = sizeof(address);
    which = "at ";
    named = getsockname(file, (struct sockaddr *)&address, &length) == 0;
  }
  const char *transport = named && address.ss_family == AF_UNIX ? "unix" : wait_transport(file);
  if (named && wait_address(&address, length, name, sizeof(name)))
    wait_add(text, "on", "%s %s%s", transport, which, name);
  else
    wait_add(text, "on", "%s", transport);
}

/* What a thread's descriptor is: "socket:[7]", "pipe:[7]", "anon_inode:[eventpoll]", or a path (proc(5)). */
static bool wait_read_link(const char *thread, int file, char target[WAIT_ON_BYTES]) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%s/fd/%d", thread, file);
  const ssize_t length = readlink(path, target, WAIT_ON_BYTES - 1);
  target[length > 0 ? length : 0] = 0;
  return length > 0;
}

static bool wait_has_as(int file, const char *socket) {
  char target[WAIT_ON_BYTES];
  return file >= 0 && wait_read_link("thread-self", file, target) && strcmp(target, socket) == 0;
}

/* Whether a seccomp filter stands over this thread: it may end the process for calls that hardly anybody makes. */
static bool wait_is_filtered(void) {
  char status[4096];
  const int file = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t got = file >= 0 ? read(file, status, sizeof(status) - 1) : -1;
  if (file >= 0) close(file);
  if (got <= 0) return true;
  status[got] = 0;
  return !strstr(status, "\nSeccomp:\t0\n");
}

/* Our thread may have descriptors of its own (the preload's): then it borrows the program's (pidfd_getfd(2), Linux 5.6). */
static void wait_find_socket(wait_text *text, int file, const char *socket) {
  if (wait_has_as(file, socket)) {
    wait_on_socket(text, file);
    return;
  }
  if (wait_is_filtered()) {
    wait_add(text, "on", "socket");
    return;
  }
  const long process = onstack_sys_call2(WAIT_PIDFD_OPEN, onstack_sys_getpid(), 0);
  const long borrowed = process >= 0 ? onstack_sys_call3(WAIT_PIDFD_GETFD, process, file, 0) : -1;
  if (wait_has_as((int)borrowed, socket))
    wait_on_socket(text, (int)borrowed);
  else
    wait_add(text, "on", "socket");
  if (borrowed >= 0) close((int)borrowed);
  if (process >= 0) close((int)process);
}

static void wait_on_file(wait_text *text, uint32_t tid, uint64_t argument) {
  char thread[32], target[WAIT_ON_BYTES];
  const int file = (int)argument;
  snprintf(thread, sizeof(thread), "self/task/%" PRIu32, tid);
  if (file < 0 || !wait_read_link(thread, file, target)) return;
  wait_make_printable(target);
  if (strncmp(target, "socket:", 7) == 0) {
    wait_find_socket(text, file, target);
  } else if (strncmp(target, "anon_inode:", 11) == 0) {
    const char *kind = target + 11 + (target[11] == '[');
    wait_add(text, "on", "%.*s", (int)strcspn(kind, "]"), kind);
  } else {
    wait_add(text, "on", "%s", target); /* a pipe's number tells which */
  }
}

static void wait_on_files(wait_text *text, uint32_t tid, const onstack_task_call *call) {
  uint64_t words[2];
  struct pollfd first;
  _Static_assert(sizeof(first) == 8, "a word");
  const uint64_t address = call->arguments[0], count = call->arguments[1];
  if (count == 1 && onstack_address_plausible(address) && onstack_memory_copy_pair(address, words)) {
    memcpy(&first, words, sizeof(first));
    wait_on_file(text, tid, (uint64_t)(int64_t)first.fd);
  } else if (count > 0) {
    wait_add(text, "on", "%" PRIu64 " descriptors", count);
  }
}

/* ---- locks ---- */

#define WAIT_GLIBC_LOCKED 2 /* and there are waiters (nptl/lowlevellock.h) */

/* linux/futex.h, which not every libc brings. */
#define WAIT_OPERATION 0x7f /* of a call's second argument */
#define WAIT_REQUEUE_PI 11
#define WAIT_LOCK_PI 6
#define WAIT_LOCK_PI2 13
#define WAIT_TID 0x3fffffffu /* of a lock that inherits priorities */

/*
 * Who has it. A lock that inherits priorities has the thread in its word (futex(2), PI futexes). glibc's mutex has it eight
 * bytes further (struct __pthread_mutex_s: __lock, __count, __owner), which is believed where the word is that of a locked
 * mutex with waiters and the number that of a thread of this process: by another lock's chance both are unlikely.
 */
static uint32_t wait_holder(uint64_t address, int operation) {
  uint32_t words[4];
  if (!onstack_address_plausible(address) || !onstack_memory_copy_pair(address, (uint64_t *)(void *)words)) return 0;
  const bool inherits = operation == WAIT_LOCK_PI || operation == WAIT_LOCK_PI2;
  const uint32_t holder = inherits ? words[0] & WAIT_TID : words[0] == WAIT_GLIBC_LOCKED ? words[2] : 0;
  return holder != 0 && holder <= WAIT_TID && !onstack_task_is_gone(holder) ? holder : 0;
}

static void wait_on_word(wait_text *text, uint32_t tid, const onstack_task_call *call) {
  const int operation = (int)call->arguments[1] & WAIT_OPERATION;
  wait_add(text, "on", "0x%" PRIx64, call->arguments[0]);
  if (operation == WAIT_REQUEUE_PI) return;
  const uint32_t holder = wait_holder(call->arguments[0], operation);
  uint64_t name[3] = {0, 0, 0};
  if (holder != 0 && holder != tid && onstack_task_name(holder, name))
    wait_add(text, "holder", "%s/%" PRIu32, (const char *)name, holder);
}

uint32_t onstack_wait_labels(uint32_t tid, const onstack_task_call *call, char *out) {
  wait_text text = {out, 0};
  const wait_call name = wait_call_of(call->number);
  wait_add(&text, "state", "%s", wait_state(onstack_task_state(tid)));
  if (call->number < 0)
    wait_add(&text, "wait", "page fault");
  else if (name.name)
    wait_add(&text, "wait", "%s", name.name);
  else
    wait_add(&text, "wait", "call %" PRId64, call->number);
  if (name.object == WAIT_CALL_ON_FILE)
    wait_on_file(&text, tid, call->arguments[0]);
  else if (name.object == WAIT_CALL_ON_FILES)
    wait_on_files(&text, tid, call);
  else if (name.object == WAIT_CALL_ON_WORD)
    wait_on_word(&text, tid, call);
  return text.used;
}

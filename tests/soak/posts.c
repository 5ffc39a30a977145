/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Foreign signals to threads that ask for nothing: each has a number of its own and must arrive once. A thread says where it
 * stands while it lives. What was sent to it before it has left its place is delivered at the end of its next system call,
 * so none may be missing when all have ended.
 */
#include "soak.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POSTS_PLACES 128
#define POSTS_MOST (1u << 20) /* in a round; then no more are sent */
#define POSTS_MARK ((uint64_t)1 << 32)

uint64_t soak_posts;

typedef struct posts_place {
  pthread_mutex_t lock; /* held while one is sent: the thread is there until it has been */
  pid_t tid;            /* 0: free */
} posts_place;
static posts_place posts_places[POSTS_PLACES];
static uint8_t posts_arrived[POSTS_MOST];
static uint32_t posts_sent;

int soak_posts_open(void) {
  for (int i = 0; i < POSTS_PLACES; i++) {
    posts_place *place = &posts_places[i];
    if (pthread_mutex_trylock(&place->lock) != 0) continue;
    bool mine = place->tid == 0;
    if (mine) place->tid = (pid_t)syscall(SYS_gettid);
    pthread_mutex_unlock(&place->lock);
    if (mine) return i;
  }
  return -1;
}

void soak_posts_close(int number) {
  if (number < 0) return;
  pthread_mutex_lock(&posts_places[number].lock);
  posts_places[number].tid = 0;
  pthread_mutex_unlock(&posts_places[number].lock);
  syscall(SYS_getppid);
}

bool soak_posts_take(uint64_t value) {
  if ((value & ~(uint64_t)(POSTS_MOST - 1)) != POSTS_MARK) return false;
  __atomic_fetch_add(&posts_arrived[value - POSTS_MARK], 1, __ATOMIC_RELAXED);
  return true;
}

static bool posts_send(pid_t tid, uint32_t number) {
  siginfo_t info;
  memset(&info, 0, sizeof(info));
  info.si_signo = SOAK_OTHER_SIGNAL;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_ptr = (void *)(uintptr_t)(POSTS_MARK | number);
  return syscall(SYS_rt_tgsigqueueinfo, info.si_pid, tid, SOAK_OTHER_SIGNAL, &info) == 0;
}

void soak_post(unsigned *seed) {
  posts_place *place = &posts_places[soak_random(seed, POSTS_PLACES)];
  if (pthread_mutex_trylock(&place->lock) != 0) return;
  uint32_t number = place->tid ? __atomic_fetch_add(&posts_sent, 1, __ATOMIC_RELAXED) : POSTS_MOST;
  if (number < POSTS_MOST) {
    /* EAGAIN: the user's queued signals are used up for the moment; it was not sent. */
    if (posts_send(place->tid, number))
      soak_count(&soak_posts, 1);
    else
      soak_posts_take(POSTS_MARK | number);
  }
  pthread_mutex_unlock(&place->lock);
}

void soak_check_posts(void) {
  uint32_t sent = posts_sent < POSTS_MOST ? posts_sent : POSTS_MOST;
  for (uint32_t i = 0; i < sent; i++)
    if (posts_arrived[i] != 1) soak_fail("a signal to another thread arrived %d times", posts_arrived[i]);
  memset(posts_arrived, 0, sizeof(posts_arrived));
  posts_sent = 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "burners.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_t burners[BURNERS];
static pid_t burner_ids[BURNERS];
static atomic_int burners_ready, burners_quit;

static void burner_spin(int rounds) {
  for (volatile int i = 0; i < rounds; i++) continue;
}

static void *burner_main(void *place) {
  sigset_t everything;
  sigfillset(&everything);
  burner_ids[(intptr_t)place] = (pid_t)syscall(SYS_gettid);
  atomic_fetch_add(&burners_ready, 1);
  while (!atomic_load_explicit(&burners_quit, memory_order_relaxed)) {
    sigset_t before;
    burner_spin(500000);
    pthread_sigmask(SIG_BLOCK, &everything, &before);
    burner_spin(500000);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  return NULL;
}

void burners_start(void) {
  atomic_store(&burners_ready, 0);
  atomic_store(&burners_quit, 0);
  for (intptr_t i = 0; i < BURNERS; i++) {
    if (pthread_create(&burners[i], NULL, burner_main, (void *)i) == 0) continue;
    perror("pthread_create");
    exit(2);
  }
  while (atomic_load(&burners_ready) < BURNERS) usleep(1000);
}

pid_t burners_thread(int which) { return burner_ids[which]; }

void burners_stop(void) {
  atomic_store(&burners_quit, 1);
  for (int i = 0; i < BURNERS; i++) pthread_join(burners[i], NULL);
}

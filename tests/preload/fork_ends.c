/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Children of a thread, whose only thread ends at once: each process ends with its last thread, and with status 0. */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 40

static void *forks(void *data) {
  int *failed = data, status = 0;
  const pid_t child = fork();
  if (child == 0) return NULL; /* no exit: the thread ends */
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    printf("a child ended with %#x\n", status);
    fflush(stdout); /* the next children inherit what waits here */
    ++*failed;
  }
  return NULL;
}

int main(void) {
  int failed = 0;
  for (int i = 0; i < CHILDREN; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, forks, &failed) != 0 || pthread_join(thread, NULL) != 0) return 2;
  }
  return failed != 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reader `pipe` by itself: it reads what is there, refuses what is not, leaves nothing in its pipes, and never writes
 * into a descriptor that is not its own any more. Chosen by a session: tests/core/test_reader.c.
 */
#include "sampler/unwind/memory.h"
#include "support.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(reader_pipe, .init = t_setup);

#define PAGE ((size_t)4096)

static bool read_pair(const void *address, uint64_t words[2]) {
  return onstack_memory_pipe_pair((uint64_t)(uintptr_t)address, words);
}

/* A readable page and an unreadable one behind it. */
static uint8_t *page_and_hole(void) {
  uint8_t *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(page, MAP_FAILED);
  cr_assert_eq(mprotect(page + PAGE, PAGE, PROT_NONE), 0);
  return page;
}

Test(reader_pipe, reads_what_is_there_and_nothing_else) {
  uint8_t *page = page_and_hole();
  uint64_t words[2];
  for (size_t i = 0; i < PAGE / 8; i++) ((uint64_t *)(void *)page)[i] = i * 0x9e3779b97f4a7c15u;
  cr_assert_not(read_pair(page, words), "before it is open");
  cr_assert(onstack_memory_pipe_open());
  /* Far more rounds than a pipe has room, failures in between: nothing may stay in it. */
  for (size_t round = 0; round < 100000; round++) {
    size_t i = round % (PAGE / 8 - 1);
    cr_assert(read_pair(page + 8 * i, words));
    cr_assert(words[0] == i * 0x9e3779b97f4a7c15u && words[1] == (i + 1) * 0x9e3779b97f4a7c15u);
    if (round % 3 == 0) cr_assert_not(read_pair(page + PAGE - 8, words), "the second word is in the hole");
    if (round % 5 == 0) cr_assert_not(read_pair(page + PAGE, words));
    if (round % 7 == 0) cr_assert_not(read_pair((void *)~(uintptr_t)7, words));
    if (round % 7 == 1) cr_assert_not(read_pair((void *)8, words));
  }
  onstack_memory_pipe_close();
  cr_assert_not(read_pair(page, words), "after it was closed");
}

/* ---- threads, and memory that goes ---- */

typedef struct racing {
  uint8_t *page;
  uint32_t over;
  uint64_t read, refused, wrong;
} racing;

static void *read_always(void *data) {
  racing *race = data;
  uint64_t words[2], read = 0, refused = 0, wrong = 0;
  while (!__atomic_load_n(&race->over, __ATOMIC_RELAXED)) {
    bool good = read_pair(race->page, words);
    read += good;
    refused += !good;
    /* The page is being filled, and the kernel copies bytes: what is there of a value may be any part of it. */
    wrong += good && ((words[0] & ~(uint64_t)0x1111) != 0 || (words[1] & ~(uint64_t)0x2222) != 0);
  }
  __atomic_add_fetch(&race->read, read, __ATOMIC_RELAXED);
  __atomic_add_fetch(&race->refused, refused, __ATOMIC_RELAXED);
  __atomic_add_fetch(&race->wrong, wrong, __ATOMIC_RELAXED);
  return NULL;
}

Test(reader_pipe, many_threads_on_memory_that_is_unmapped_meanwhile) {
  pthread_t threads[6];
  racing race = {.page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
  cr_assert(onstack_memory_pipe_open());
  for (int i = 0; i < 6; i++) pthread_create(&threads[i], NULL, read_always, &race);
  for (double end = t_now() + 1; t_now() < end;) {
    munmap(race.page, PAGE);
    mmap(race.page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ((volatile uint64_t *)(void *)race.page)[0] = 0x1111;
    ((volatile uint64_t *)(void *)race.page)[1] = 0x2222;
  }
  __atomic_store_n(&race.over, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
  onstack_memory_pipe_close();
  cr_assert(race.read > 1000 && race.refused > 10, "%lu read, %lu refused", (unsigned long)race.read,
            (unsigned long)race.refused);
  cr_assert_eq(race.wrong, 0, "%lu of %lu pairs were somebody else's", (unsigned long)race.wrong, (unsigned long)race.read);
}

/* ---- the host and its descriptors ---- */

static bool is_fifo(int file) {
  struct stat status;
  return fstat(file, &status) == 0 && S_ISFIFO(status.st_mode);
}

#define NUMBERS 1024

static int count_open(int *highest) {
  int count = 0;
  for (int file = 0; file < NUMBERS; file++)
    if (fcntl(file, F_GETFD) >= 0) {
      count++;
      *highest = file;
    }
  return count;
}

Test(reader_pipe, its_descriptors_are_high_and_not_inherited_by_exec) {
  int highest = 0, before = count_open(&highest), lowest = NUMBERS;
  bool was[NUMBERS];
  for (int file = 0; file < NUMBERS; file++) was[file] = fcntl(file, F_GETFD) >= 0;
  cr_assert(onstack_memory_pipe_open());
  for (int file = 0; file < NUMBERS; file++) {
    if (was[file] || fcntl(file, F_GETFD) < 0) continue;
    if (file < lowest) lowest = file;
    cr_assert(fcntl(file, F_GETFD) & FD_CLOEXEC);
    cr_assert(is_fifo(file) && (fcntl(file, F_GETFL) & O_ACCMODE) == O_RDWR);
  }
  cr_assert_gt(count_open(&highest), before);
  cr_assert_gt(lowest, 100, "open() of a host gives %d soon", lowest);
  onstack_memory_pipe_close();
  cr_assert_eq(count_open(&highest), before);
}

/* A host that closes everything (a daemon) and puts its own under our numbers. */
Test(reader_pipe, what_the_host_puts_in_their_place_is_left_alone) {
  static const uint64_t pattern[2] = {0xabab, 0xcdcd};
  int host = memfd_create("host", 0), ends[2];
  uint64_t words[2];
  cr_assert(onstack_memory_pipe_open());
  cr_assert(read_pair(pattern, words));
  cr_assert_eq(pipe(ends), 0);
  for (int file = 100; file < NUMBERS; file++)
    if (fcntl(file, F_GETFD) >= 0) cr_assert_eq(dup2(file % 2 ? host : ends[1], file), file);
  cr_assert_not(read_pair(pattern, words), "there is no pipe of ours left");
  onstack_memory_pipe_close();
  struct stat status;
  cr_assert_eq(fstat(host, &status), 0);
  cr_assert_eq(status.st_size, 0, "something was written into the host's file");
  cr_assert_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  cr_assert_lt(read(ends[0], words, 16), 0, "something was written into the host's pipe");
  int left = 0, highest = 0;
  left = count_open(&highest);
  cr_assert_gt(highest, 100, "the host's own descriptors were closed");
  cr_assert(onstack_memory_pipe_open(), "and a later start makes new ones");
  cr_assert(read_pair(pattern, words) && words[0] == 0xabab && words[1] == 0xcdcd);
  onstack_memory_pipe_close();
  cr_assert_eq(count_open(&highest), left);
}

Test(reader_pipe, a_child_owns_no_pipe_of_its_parent) {
  static const uint64_t pattern[2] = {1, 2};
  uint64_t words[2];
  int highest = 0, before = count_open(&highest);
  cr_assert(onstack_memory_pipe_open());
  pid_t child = fork();
  if (child == 0) {
    bool refused = !read_pair(pattern, words); /* inherited: not even before the fork handler has run */
    onstack_memory_pipe_after_fork();
    bool closed = count_open(&highest) == before;
    bool anew = onstack_memory_pipe_open() && read_pair(pattern, words);
    _exit((refused ? 0 : 1) + (closed ? 0 : 2) + (anew ? 0 : 4));
  }
  int status = t_wait(child);
  cr_assert_eq(status, 0, "refused 1, closed 2, anew 4: %d", status);
  cr_assert(read_pair(pattern, words), "the parent goes on");
  onstack_memory_pipe_close();
}

/* A process 1 whose child is process 1 as well, in a namespace of its own. */
static int be_first(void) {
  static const uint64_t pattern[2] = {1, 2};
  uint64_t words[2];
  onstack_session *session = NULL;
  if (onstack_session_start(NULL, &session) != 0 || onstack_session_stop(session) != 0) return 70; /* knows children now */
  int highest = 0, before = count_open(&highest);
  if (!onstack_memory_pipe_open() || !read_pair(pattern, words)) return 71;
  pid_t child = (pid_t)onstack_sys_call6(SYS_clone, SIGCHLD | CLONE_NEWPID, 0, 0, 0, 0, 0);
  if (child == 0) {
    onstack_stats stats = {.size = sizeof(stats)};
    if (getpid() != 1) _exit(72);
    if (read_pair(pattern, words)) _exit(73); /* the parent's pipe */
    onstack_session_stats(session, &stats);   /* the first call of an ordinary thread puts it in order */
    if (count_open(&highest) != before) _exit(74);
    _exit(onstack_memory_pipe_open() && read_pair(pattern, words) ? 0 : 75);
  }
  const int status = t_wait(child);
  return status != 0 ? status : read_pair(pattern, words) ? 0 : 76;
}

Test(reader_pipe, a_child_with_the_same_id_owns_none_either) { t_in_pid_namespace(be_first); }

Test(reader_pipe, costs_what_the_documents_say) {
  static const uint64_t pattern[2] = {1, 2};
  uint64_t words[2];
  double best = 1;
  cr_assert(onstack_memory_pipe_open());
  for (int round = 0; round < 20; round++) {
    double begin = t_now();
    for (int i = 0; i < 1000; i++) read_pair(pattern, words);
    double each = (t_now() - begin) / 1000;
    if (each < best) best = each;
  }
  onstack_memory_pipe_close();
  printf("reader pipe: %.0f ns a pair\n", best * 1e9);
}

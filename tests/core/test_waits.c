/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the clock `wall` says of threads that wait: how long, in which call, on what, and who has it. */
#include "sampler/source/look.h"
#include "support.h"
#include "onstack/labels.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void init(void) {
  t_setup();
  if (!onstack_look_works()) cr_skip("the kernel tells nothing of blocked threads, or an emulator tells of its own");
}

TestSuite(waits, .init = init);

/* ---- a sink that adds up values by thread and labels ---- */

#define SUMS 256u

typedef struct sum {
  int32_t tid;
  char name[16];
  char labels[512]; /* "key=value key=value" */
  uint64_t value, samples, whole, frames;
} sum;

typedef struct sums {
  sum items[SUMS];
  uint32_t count, lost;
} sums;

static void labels_text(const onstack_sample *sample, char *out) {
  size_t used = 0;
  bool key = true;
  for (uint32_t at = 0; at < sample->label_bytes; at += (uint32_t)strlen(sample->labels + at) + 1) {
    used += (size_t)snprintf(out + used, 512 - used, "%s%s", sample->labels + at, key ? "=" : " ");
    key = !key;
  }
  if (used > 0) out[used - 1] = 0;
}

static int add(void *data, const onstack_sample *sample) {
  sums *all = data;
  char labels[512] = "";
  labels_text(sample, labels);
  for (uint32_t i = 0; i < SUMS; i++) {
    sum *item = &all->items[i];
    if (i < all->count && (item->tid != sample->tid || strcmp(item->labels, labels) != 0)) continue;
    if (i == all->count) {
      item->tid = sample->tid;
      strcpy(item->labels, labels);
      all->count++;
    }
    strncpy(item->name, sample->thread_name, 15);
    item->value += sample->value;
    item->samples++;
    item->whole += sample->truncation == ONSTACK_TRUNCATED_NOT;
    item->frames = sample->frame_count;
    return 0;
  }
  all->lost++;
  return 0;
}

/* Seconds of a thread (0: of all) in samples with such a label. */
static double seconds(const sums *all, int32_t tid, const char *label) {
  uint64_t value = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    const char *at = strstr(all->items[i].labels, label);
    const bool matches = at && (at == all->items[i].labels || at[-1] == ' ');
    if ((tid == 0 || all->items[i].tid == tid) && (label[0] == 0 || matches)) value += all->items[i].value;
  }
  return (double)value / 1e9;
}

static void print(const sums *all) {
  for (uint32_t i = 0; i < all->count; i++)
    fprintf(stderr, "%-10s %.3f s of %llu: %s\n", all->items[i].name, (double)all->items[i].value / 1e9,
            (unsigned long long)all->items[i].samples, all->items[i].labels);
}

/* Threads begin and are there before a session begins, which sees them for `seconds`. */
typedef struct actor {
  void (*acts)(struct actor *); /* again and again */
  const char *name;
  void *data;
  pthread_t thread;
  int32_t tid;
  uint32_t quit;
} actor;

static void *plays(void *data) {
  actor *a = data;
  pthread_setname_np(pthread_self(), a->name);
  onstack_publish(&a->tid, onstack_sys_gettid());
  while (!onstack_observe(&a->quit)) a->acts(a);
  return NULL;
}

static void begin(actor *actors, int count) {
  for (int i = 0; i < count; i++) pthread_create(&actors[i].thread, NULL, plays, &actors[i]);
  for (int i = 0; i < count; i++)
    while (!onstack_observe(&actors[i].tid)) t_sleep(0.001);
}

static void end(actor *actors, int count) {
  for (int i = 0; i < count; i++) onstack_publish(&actors[i].quit, 1u);
  for (int i = 0; i < count; i++) pthread_join(actors[i].thread, NULL);
}

static onstack_options options_of(sums *all, uint32_t frequency) {
  onstack_options options = t_options(frequency, add, all);
  options.clock = ONSTACK_CLOCK_WALL;
  return options;
}

static double stop_took; /* of the last session, which saw them for so much longer at most */

/* Returns how long the session saw them. */
static double watch(sums *all, uint32_t frequency, double for_seconds) {
  onstack_options options = options_of(all, frequency);
  onstack_session *session = t_start(&options);
  const double begun = t_now();
  t_sleep(for_seconds);
  const double lived = t_now() - begun;
  const onstack_stats stats = t_finish(session);
  stop_took = t_now() - begun - lived;
  cr_assert_eq(stats.wall_refused, 0);
  cr_assert_eq(all->lost, 0);
  return lived;
}

/* ---- known waits ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What the actors themselves know of it: waits that have ended, and since when one goes on (0: none does). */
static double locked_out;
static _Atomic double locked_since;

static void holds_80_of_100_ms(actor *a) {
  (void)a;
  pthread_mutex_lock(&lock);
  t_sleep(0.08);
  pthread_mutex_unlock(&lock);
  t_sleep(0.02);
}

static void wants_the_lock(actor *a) {
  (void)a;
  locked_since = t_now();
  pthread_mutex_lock(&lock);
  locked_out += t_now() - locked_since;
  locked_since = 0;
  pthread_mutex_unlock(&lock);
  t_sleep(0.002);
}

static void sleeps_30_of_40_ms(actor *a) {
  double *slept = a->data, before = t_now();
  t_sleep(0.03);
  *slept += t_now() - before;
  t_burn(0.01);
}

static void reads(actor *a) {
  char byte;
  if (read(((int *)a->data)[0], &byte, 1) != 1) abort();
}

static void writes_each_50_ms(actor *a) {
  t_sleep(0.05);
  if (write(((int *)a->data)[1], "x", 1) != 1) abort();
}

/* Within 3 % of the time that was watched, of a thread with a processor whenever it wants one. */
static void is_share(const sums *all, const actor *a, const char *label, double wanted, double lived) {
  const double got = seconds(all, a->tid, label), queued = seconds(all, a->tid, "state=runnable");
  fprintf(stderr, "waits: %-9s %-32s %.3f of %.3f s\n", a->name, label, got, wanted);
  cr_expect(got > wanted - 0.03 * lived - queued && got < wanted + 0.03 * lived + stop_took, "%s, %s: %.3f s, not %.3f s",
            a->name, label, got, wanted);
}

Test(waits, by_call_and_by_lock) {
  sums *all = calloc(1, sizeof(*all));
  int pipes[2];
  double slept = 0;
  char label[64], holder[64];
  cr_assert_eq(pipe(pipes), 0);
  actor actors[] = {{.acts = holds_80_of_100_ms, .name = "holder"},
                    {.acts = wants_the_lock, .name = "wants"},
                    {.acts = sleeps_30_of_40_ms, .name = "sleeps", .data = &slept},
                    {.acts = reads, .name = "reads", .data = pipes},
                    {.acts = writes_each_50_ms, .name = "writes", .data = pipes}};
  begin(actors, 5);
  locked_out = slept = 0;
  const double lived = watch(all, 97, 3.0); /* no multiple of what the actors do */
  const double since = locked_since, locked = locked_out + (since > 0 ? t_now() - since : 0), sleeping = slept;
  end(actors, 4);
  end(&actors[4], 1);
  print(all);
  for (uint32_t i = 0; i < all->count; i++) cr_expect(all->items[i].name[0] != 0, "%s: no name", all->items[i].labels);
  snprintf(label, sizeof(label), "on=0x%llx", (unsigned long long)(uintptr_t)&lock);
  snprintf(holder, sizeof(holder), "holder=holder/%d", actors[0].tid);
  is_share(all, &actors[1], label, locked, lived);
  is_share(all, &actors[1], holder, locked, lived);
  is_share(all, &actors[2], "wait=clock_nanosleep", sleeping, lived);
  is_share(all, &actors[3], "wait=read on=pipe:", lived, lived);
  is_share(all, &actors[4], "wait=clock_nanosleep", lived, lived);
  /* The kernel's own books: all of each thread's time is in one state or another. */
  for (int i = 0; i < 5; i++) {
    const double states = seconds(all, actors[i].tid, "state=");
    cr_expect(states > lived * 0.985 - 0.02 && states < lived * 1.015 + 0.02 + stop_took, "%s: %.3f of %.3f s",
              actors[i].name, states, lived);
  }
  /* Criterion has a thread, too. */
  const double threads = t_traces_now().threads + 5, sum = seconds(all, 0, "state="), wanted = lived * threads;
  fprintf(stderr, "waits: sum over states %.3f of %.3f s\n", sum, wanted);
  cr_expect(sum > wanted * 0.99 && sum < wanted * 1.01 + stop_took * threads, "%.3f of %.3f s", sum, wanted);
}

/* ---- a queue behind one worker ---- */

typedef struct queue {
  pthread_mutex_t mutex;
  pthread_cond_t filled, done;
  int waiting;
} queue;

static void asks(actor *a) {
  queue *q = a->data;
  pthread_mutex_lock(&q->mutex);
  q->waiting++;
  pthread_cond_signal(&q->filled);
  pthread_cond_wait(&q->done, &q->mutex);
  pthread_mutex_unlock(&q->mutex);
}

static void works_20_ms(actor *a) {
  queue *q = a->data;
  pthread_mutex_lock(&q->mutex);
  while (q->waiting == 0 && !onstack_observe(&a->quit)) pthread_cond_wait(&q->filled, &q->mutex);
  q->waiting--;
  pthread_mutex_unlock(&q->mutex);
  t_sleep(0.02);
  pthread_cond_signal(&q->done);
}

Test(waits, in_a_queue_behind_one_worker) {
  sums *all = calloc(1, sizeof(*all));
  queue q = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
  actor actors[] = {{.acts = works_20_ms, .name = "worker", .data = &q},
                    {.acts = asks, .name = "asks-1", .data = &q},
                    {.acts = asks, .name = "asks-2", .data = &q},
                    {.acts = asks, .name = "asks-3", .data = &q}};
  begin(actors, 4);
  const double lived = watch(all, 50, 2.0);
  for (int i = 1; i < 4; i++) onstack_publish(&actors[i].quit, 1u);
  end(&actors[1], 3); /* the worker lets them out one by one */
  onstack_publish(&actors[0].quit, 1u);
  pthread_cond_signal(&q.filled);
  end(actors, 1);
  is_share(all, &actors[0], "wait=clock_nanosleep", lived, lived);
  for (int i = 1; i < 4; i++) is_share(all, &actors[i], "wait=futex", lived, lived);
}

/* ---- states ---- */

static void burns(actor *a) {
  (void)a;
  t_burn(0.01);
}

/* Threads that want a processor get one in turns: what they wait for it is theirs as well, with the stack of where they run. */
Test(waits, for_a_processor) {
  enum { BURNERS = 6 };
  sums *all = calloc(1, sizeof(*all));
  actor actors[BURNERS];
  for (int i = 0; i < BURNERS; i++) actors[i] = (actor){.acts = burns, .name = "burns"};
  begin(actors, BURNERS);
  onstack_options options = options_of(all, 50);
  onstack_session *session = t_start(&options);
  const double begun = t_now(), before = t_process_cpu();
  t_sleep(2.0);
  const double lived = t_now() - begun, used = t_process_cpu() - before;
  const onstack_stats stats = t_finish(session);
  const double lost = (double)stats.dropped_unwinder * 0.02;
  end(actors, BURNERS);
  const double runs = seconds(all, 0, "state=running"), waits = seconds(all, 0, "state=runnable");
  fprintf(stderr, "waits: running %.3f of %.3f s, runnable %.3f (and %.3f) of %.3f s\n", runs, used, waits, lost,
          lived * BURNERS - used);
  cr_expect(runs > used * 0.9 - 0.1 && runs < used * 1.1 + 0.1, "running %.3f of %.3f s", runs, used);
  /* What a thread has waited since its last tick has no stack at the end. */
  const double all_waits = waits + lost, wanted = lived * BURNERS - used;
  cr_expect(all_waits > wanted * 0.9 - 0.1 && all_waits < wanted * 1.1 + 0.1, "runnable %.3f of %.3f s", all_waits, wanted);
}

/* A parent of vfork sleeps until its child is another program or has ended, and no signal wakes it. */
static void waits_for_its_child(actor *a) {
  (void)a;
  const struct onstack_timespec moment = {0, 200000000};
  const pid_t child = vfork();
  if (child == 0) {
    onstack_sys_call2(SYS_nanosleep, (long)&moment, 0);
    _exit(0);
  }
  t_wait(child);
}

Test(waits, without_a_signal_that_wakes) {
  sums *all = calloc(1, sizeof(*all));
  actor parent = {.acts = waits_for_its_child, .name = "parent"};
  begin(&parent, 1);
  const double lived = watch(all, 100, 1.0);
  end(&parent, 1);
  const double got = seconds(all, parent.tid, "state=uninterruptible");
  cr_expect(got > 0.8 * lived - 0.1 && got < lived + 0.05, "%.3f of %.3f s", got, lived);
}

/* ---- what stands where it stood is not walked again ---- */

static void waits_for_a_byte(actor *a) {
  char byte;
  if (read(((int *)a->data)[0], &byte, 1) != 0) abort();
}

Test(waits, who_does_not_run_is_not_walked_again) {
  enum { SLEEPERS = 40 };
  sums *all = calloc(1, sizeof(*all));
  int pipes[2];
  actor actors[SLEEPERS];
  cr_assert_eq(pipe(pipes), 0);
  for (int i = 0; i < SLEEPERS; i++) actors[i] = (actor){.acts = waits_for_a_byte, .name = "sleeper", .data = pipes};
  begin(actors, SLEEPERS);
  t_sleep(0.1);
  onstack_options options = options_of(all, 100);
  onstack_session *session = t_start(&options);
  const double begun = t_now();
  t_sleep(1.0);
  const double lived = t_now() - begun;
  const onstack_stats stats = t_finish(session);
  for (int i = 0; i < SLEEPERS; i++) onstack_publish(&actors[i].quit, 1u);
  close(pipes[1]);
  end(actors, SLEEPERS);
  fprintf(stderr, "waits: %llu rounds, %llu looks at %d threads\n", (unsigned long long)stats.wall_rounds,
          (unsigned long long)stats.wall_looks, SLEEPERS + 1);
  cr_expect_gt(stats.wall_rounds, 5);
  cr_expect_lt(stats.wall_looks, 2 * stats.wall_rounds + 2 * SLEEPERS, "the main thread runs, and a drain thread may");
  for (int i = 0; i < SLEEPERS; i++) {
    const double got = seconds(all, actors[i].tid, "state=blocked wait=read");
    /* From the first look on, which is late on a busy machine. */
    cr_expect(got > lived - 0.15 && got < lived + 0.03, "%.3f of %.3f s", got, lived);
  }
}

static double stood_in_read;

static void stands_long_in_two_places(actor *a) {
  const double begun = t_now();
  reads(a);
  stood_in_read = t_now() - begun;
  t_sleep(3.0);
}

/* Who stands for long is looked at less often: its time is in the right places all the same. */
Test(waits, that_last_for_seconds) {
  sums *all = calloc(1, sizeof(*all));
  int pipes[2];
  cr_assert_eq(pipe(pipes), 0);
  actor a = {.acts = stands_long_in_two_places, .name = "stands", .data = pipes};
  onstack_options options = options_of(all, 100);
  onstack_session *session = t_start(&options);
  begin(&a, 1);
  const double begun = t_now();
  t_sleep(3.0);
  cr_assert_eq(write(pipes[1], "x", 1), 1);
  t_sleep(2.0);
  const double lived = t_now() - begun;
  t_finish(session);
  print(all);
  is_share(all, &a, "wait=read", stood_in_read, lived);
  is_share(all, &a, "wait=clock_nanosleep", lived - stood_in_read, lived);
  onstack_publish(&a.quit, 1u);
  cr_assert_eq(write(pipes[1], "x", 1), 1);
  end(&a, 1);
}

/* ---- on what ---- */

static int listener, connected[2], epoll, unix_pair[2];
static char peer_port[32];

static void make_sockets(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof(address);
  listener = socket(AF_INET, SOCK_STREAM, 0);
  cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
  cr_assert_eq(listen(listener, 4), 0);
  getsockname(listener, (struct sockaddr *)&address, &length);
  snprintf(peer_port, sizeof(peer_port), "127.0.0.1:%d", ntohs(address.sin_port));
  connected[0] = socket(AF_INET, SOCK_STREAM, 0);
  cr_assert_eq(connect(connected[0], (struct sockaddr *)&address, sizeof(address)), 0);
  connected[1] = accept(listener, NULL, NULL);
  cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, unix_pair), 0);
  epoll = epoll_create1(0);
}

static void accepts(actor *a) {
  (void)a;
  const int got = accept(listener, NULL, NULL);
  if (got >= 0) close(got);
}
static void receives(actor *a) {
  char byte;
  recv(*(int *)a->data, &byte, 1, 0);
}
static void epolls(actor *a) {
  struct epoll_event event;
  (void)a;
  epoll_wait(epoll, &event, 1, 500);
}
static void polls_one(actor *a) {
  struct pollfd one = {.fd = *(int *)a->data, .events = POLLIN};
  poll(&one, 1, 500);
}
static void polls_two(actor *a) {
  struct pollfd two[2] = {{.fd = connected[0], .events = POLLIN}, {.fd = unix_pair[0], .events = POLLIN}};
  (void)a;
  poll(two, 2, 500);
}

Test(waits, on_what) {
  sums *all = calloc(1, sizeof(*all));
  char at[64], peer[64];
  make_sockets();
  actor actors[] = {{.acts = accepts, .name = "accepts"},
                    {.acts = receives, .name = "receives", .data = &connected[0]},
                    {.acts = receives, .name = "receives-unix", .data = &unix_pair[0]},
                    {.acts = epolls, .name = "epolls"},
                    {.acts = polls_one, .name = "polls-one", .data = &connected[0]},
                    {.acts = polls_two, .name = "polls-two"}};
  begin(actors, 6);
  t_sleep(0.05);
  const double lived = watch(all, 50, 1.0);
  for (int i = 0; i < 6; i++) onstack_publish(&actors[i].quit, 1u);
  shutdown(listener, SHUT_RDWR);
  shutdown(connected[0], SHUT_RDWR);
  shutdown(unix_pair[0], SHUT_RDWR);
  end(actors, 6);
  print(all);
  snprintf(at, sizeof(at), "on=tcp at %s", peer_port);
  snprintf(peer, sizeof(peer), "on=tcp %s", peer_port);
  is_share(all, &actors[0], at, lived, lived);
  is_share(all, &actors[1], peer, lived, lived);
  is_share(all, &actors[2], "on=unix", lived, lived);
  is_share(all, &actors[3], "on=eventpoll", lived, lived);
  is_share(all, &actors[4], peer, lived, lived);
  is_share(all, &actors[5], "on=2 descriptors", lived, lived);
}

/* ---- labels of the application ---- */

static void waits_with_a_label(actor *a) {
  onstack_thread_label_set("request", a->data);
  t_sleep(0.4);
}

Test(waits, keep_the_labels_of_their_thread) {
  sums *all = calloc(1, sizeof(*all));
  actor actors[] = {{.acts = waits_with_a_label, .name = "one", .data = "/one"},
                    {.acts = waits_with_a_label, .name = "two", .data = "/two"}};
  begin(actors, 2);
  t_sleep(0.05);
  onstack_options options = options_of(all, 50);
  options.label_bytes = 64;
  onstack_session *session = t_start(&options);
  const double begun = t_now();
  t_sleep(1.0);
  const double lived = t_now() - begun;
  t_finish(session);
  end(actors, 2);
  is_share(all, &actors[0], "request=/one", lived, lived);
  is_share(all, &actors[1], "request=/two", lived, lived);
  cr_assert_eq(seconds(all, onstack_sys_gettid(), "request="), 0);
}

/* ---- stacks ---- */

/* Frames of a size that no prologue tells, kept by the frame pointer: only a search finds the first of them. */
__attribute__((noinline, noclone, optimize("no-omit-frame-pointer"))) static long deep(int depth, int pipe) {
  volatile char *room = __builtin_alloca((size_t)(depth % 3 + 1) * 64 + 8);
  char byte;
  room[0] = 1;
  if (depth > 0) return deep(depth - 1, pipe) + room[0];
  return read(pipe, &byte, 1) + room[0];
}

static void waits_deep(actor *a) {
  if (deep(30, ((int *)a->data)[0]) < 0) abort();
}

Test(waits, are_walked_to_the_root) {
  sums *all = calloc(1, sizeof(*all));
  int pipes[2];
  cr_assert_eq(pipe(pipes), 0);
  actor actors[] = {{.acts = waits_deep, .name = "deep", .data = pipes}};
  begin(actors, 1);
  t_sleep(0.05);
  watch(all, 50, 0.3);
  onstack_publish(&actors[0].quit, 1u);
  close(pipes[1]);
  end(actors, 1);
  uint64_t samples = 0, whole = 0, frames = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    if (all->items[i].tid != actors[0].tid) continue;
    samples += all->items[i].samples, whole += all->items[i].whole, frames = all->items[i].frames;
  }
  cr_assert_gt(samples, 0);
#if defined(__x86_64__)
  cr_assert_eq(whole, samples);
  cr_assert_geq(frames, 34, "read, 31 times deep, waits_deep, plays, and libc's: %llu", (unsigned long long)frames);
#else
  cr_assert_eq(whole, 0, "the link register is not known");
  (void)frames;
#endif
}

/* ---- where nothing is told ---- */

static int starts_undumpable(onstack_clock clock) {
  onstack_session *session = NULL;
  onstack_options options;
  onstack_options_init(&options, sizeof(options));
  options.clock = clock;
  const int result = onstack_session_start(&options, &session);
  if (result == 0) onstack_session_free(session);
  return result;
}

/* As after setuid: the files belong to root then (proc(5)), so root itself must go. */
Test(waits, of_a_process_that_has_dropped_its_privileges) {
  const int pid = fork();
  if (pid == 0) {
    t_deadline(30);
    if (getuid() == 0 && setuid(65534) != 0) _exit(3);
    prctl(PR_SET_DUMPABLE, 0);
    if (starts_undumpable(ONSTACK_CLOCK_WALL_SIGNAL) != 0) _exit(1);
    _exit(0);
  }
  cr_assert_eq(t_wait(pid), 0);
}

/* The session goes on with what it can see, and says what it cannot. */
Test(waits, refused_while_a_session_runs_are_counted) {
  const int pid = fork();
  if (pid == 0) {
    t_deadline(30);
    onstack_session *session = NULL;
    onstack_stats stats = {.size = sizeof(stats)};
    onstack_options options;
    onstack_options_init(&options, sizeof(options));
    options.clock = ONSTACK_CLOCK_WALL;
    if (onstack_session_start(&options, &session) != 0) _exit(1);
    if (getuid() == 0 && setuid(65534) != 0) _exit(2);
    prctl(PR_SET_DUMPABLE, 0);
    t_sleep(0.5);
    if (onstack_session_stop(session) != 0 || onstack_session_stats(session, &stats) != 0) _exit(3);
    _exit(stats.wall_refused > 3 && stats.dropped_unwinder > 3 ? 0 : 4);
  }
  cr_assert_eq(t_wait(pid), 0);
}

Test(waits, options_that_it_cannot_have) {
  onstack_options options;
  onstack_session *session;
  onstack_options_init(&options, sizeof(options));
  options.clock = ONSTACK_CLOCK_WALL;
  options.unwinder = "frame_pointer";
  cr_assert_eq(onstack_session_start(&options, &session), ONSTACK_E_UNWINDER);
  cr_assert_eq(strncmp(onstack_options_fault(&options), "unwinder: ", 10), 0);
}

/* The polls look. */
Test(waits, without_a_thread_of_ours) {
  sums *all = calloc(1, sizeof(*all));
  int pipes[2];
  cr_assert_eq(pipe(pipes), 0);
  actor actors[] = {{.acts = waits_for_a_byte, .name = "sleeper", .data = pipes}};
  begin(actors, 1);
  onstack_options options = options_of(all, 50);
  options.threads = ONSTACK_OFF;
  const int threads = t_traces_now().threads;
  onstack_session *session = t_start(&options);
  const double begun = t_now();
  cr_assert_eq(t_traces_now().threads, threads);
  while (t_now() - begun < 1.0) {
    cr_assert_geq(onstack_session_poll(session, 0), 0);
    t_sleep(0.02);
  }
  const double lived = t_now() - begun;
  t_finish(session);
  onstack_publish(&actors[0].quit, 1u);
  close(pipes[1]);
  end(actors, 1);
  is_share(all, &actors[0], "wait=read", lived, lived);
}

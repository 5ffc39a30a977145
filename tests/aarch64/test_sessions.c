/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The action comes back, ticks and weights add up to the CPU time, threads are found, memory is read safely. */
#include "check.h"

#include "platform/sys.h"
#include "sampler/unwind/memory.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>

static void burn(double seconds) {
  double end = thread_cpu() + seconds;
  do
    for (volatile int i = 0; i < 200000; i++) continue;
  while (thread_cpu() < end);
}

static void found_handler(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  (void)context;
}

/* The kernel's view, byte for byte, for each kind of action that can be found. */
static void action_comes_back(void) {
  struct sigaction found[3];
  static const char *names[] = {"restores SIG_DFL", "restores SIG_IGN", "restores a handler with flags and mask"};
  memset(found, 0, sizeof(found));
  found[0].sa_handler = SIG_DFL;
  found[1].sa_handler = SIG_IGN;
  found[2].sa_sigaction = found_handler;
  found[2].sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaddset(&found[2].sa_mask, SIGUSR2);
  for (int i = 0; i < 3; i++) {
    struct onstack_kernel_sigaction before, during, after;
    sigaction(SIGPROF, &found[i], NULL);
    onstack_sys_sigaction(SIGPROF, NULL, &before);
    onstack_session *session = start(199, NULL);
    onstack_sys_sigaction(SIGPROF, NULL, &during);
    burn(0.05);
    finish(session, names[i]);
    onstack_sys_sigaction(SIGPROF, NULL, &after);
    const bool read_right = i < 2 || before.mask == ONSTACK_SIGBIT(SIGUSR2);
    check(read_right && memcmp(&before, &after, sizeof(before)) == 0 && during.handler != before.handler, names[i],
          "handler %#lx -> %#lx -> %#lx, flags %#lx -> %#lx, mask %#lx -> %#lx", (unsigned long)before.handler,
          (unsigned long)during.handler, (unsigned long)after.handler, (unsigned long)before.flags,
          (unsigned long)after.flags, (unsigned long)before.mask, (unsigned long)after.mask);
  }
  signal(SIGPROF, SIG_DFL);
}

static void weights_are_the_time(void) {
  for (uint32_t frequency = 99; frequency <= 1000; frequency += 901) {
    onstack_session *session = start(frequency, NULL);
    double before = thread_cpu();
    burn(1.0);
    double burned = thread_cpu() - before;
    onstack_stats stats = finish(session, "weights");
    double counted = (double)(stats.recorded + stats.unattributed) * (double)stats.period / 1e9;
    check(counted > 0.85 * burned && counted < 1.1 * burned, "weights are the CPU time",
          "%u Hz: %.3f s counted in %lu samples, %.3f s burned, reader %s", frequency, counted, (unsigned long)stats.samples,
          burned, stats.reader);
  }
}

static void *burn_on_thread(void *tid) {
  *(int32_t *)tid = onstack_sys_gettid();
  burn(0.4);
  return NULL;
}

static bool kernel_is_before_6_4(void) {
  struct utsname name;
  int major = 0, minor = 0;
  uname(&name);
  return sscanf(name.release, "%d.%d", &major, &minor) == 2 && (major < 6 || (major == 6 && minor < 4));
}

static void threads_are_found(void) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  int32_t tids[THREADS] = {0};
  uint64_t weights[THREADS] = {0};
  onstack_session *session = start(199, NULL);
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, burn_on_thread, &tids[i]);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  finish(session, "threads");
  for (size_t s = 0; s < kept_count; s++)
    for (int i = 0; i < THREADS; i++)
      if (kept[s].tid == tids[i]) weights[i] += kept[s].weight;
  /*
   * Before Linux 6.4 the process tick goes to the main thread alone, and scans find new threads. What one has used by then
   * comes with its first tick (entry_handler.c), so that late is not lost. But scans take a twentieth of a processor at
   * most (consumer.c): in a machine where an instruction takes 32 ns (ci/test-aarch64.sh) they are few in a life of
   * 0.4 s, and who ends before its first tick has nothing. A fifth tells that each was found.
   */
  unsigned percent = kernel_is_before_6_4() ? 20 : 75;
  bool good = true;
  for (int i = 0; i < THREADS; i++) good = good && weights[i] * 100 > 80 * percent;
  check(good, "each thread has its time", "%lu %lu %lu %lu ticks of 80, at least %u %%", (unsigned long)weights[0],
        (unsigned long)weights[1], (unsigned long)weights[2], (unsigned long)weights[3], percent);
}

/* Each reader reads what there is and refuses what is not; its self-test says whether it works here at all. */
static void readers_read_safely(void) {
  static const onstack_reader *const readers[] = {&onstack_reader_probe, &onstack_reader_copy};
  char *memory_of_ours = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint64_t *pages = (uint64_t *)(void *)(memory_of_ours + 4096); /* with a readable one below, as the self-tests want it */
  mprotect((char *)pages + 4096, 4096, PROT_NONE);
  pages[510] = 0x1122334455667788;
  pages[511] = 42;
  for (int i = 0; i < 2; i++) {
    onstack_memory memory;
    uint64_t words[2] = {0, 0};
    memset(&memory, 0, sizeof(memory));
    memory.reader = readers[i];
    memory.low = (uint64_t)(uintptr_t)pages;
    memory.high = memory.low + 8192;
    if (!readers[i]->self_test(pages, (char *)pages + 4096)) {
      skip(readers[i]->name, "its self-test says that it does not work here; start chooses another");
      continue;
    }
    bool good = onstack_memory_read_pair(&memory, memory.low + 4096 - 16, words) && words[0] == pages[510] && words[1] == 42;
    bool bad = onstack_memory_read_pair(&memory, memory.low + 4096 - 8, words) ||
               onstack_memory_read_pair(&memory, memory.low + 4096, words) ||
               onstack_memory_read_pair(&memory, 0xfffffffffffffff8u, words) || onstack_memory_read_pair(&memory, 0, words);
    check(good && !bad, readers[i]->name, "reads a page to its end: %d; reads beyond it: %d", good, bad);
  }
}

int main(void) {
  action_comes_back();
  if (is_emulated()) {
    skip("ticks", "qemu-user delivers timers under ids that timer_create did not return");
  } else {
    weights_are_the_time();
    threads_are_found();
  }
  readers_read_safely();
  return check_status();
}

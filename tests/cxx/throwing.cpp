// SPDX-License-Identifier: MIT OR Apache-2.0
// A function of the host that throws ends the program by std::terminate, even where a catch stands around the call:
// nothing of the library is unwound, so no lock stays behind. Each case is a child process.
#include <onstack/onstack.h>
#include <onstack/profile.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>

namespace {

const int kTerminated = 42;

int throwing_sink(void *, const onstack_sample *) { throw std::runtime_error("from a sink"); }
int throwing_writer(void *, const void *, size_t) { throw std::runtime_error("from a writer"); }
int throwing_visitor(void *, const onstack_module_stats *) { throw std::runtime_error("from a visitor"); }
int throwing_filter(void *, int32_t, const char *) { throw std::runtime_error("from a thread filter"); }
int throwing_init(void *) { throw std::runtime_error("from an unwinder's init"); }
int throwing_symbolizer(void *, const uint64_t *, size_t, onstack_symbol_table *) {
  throw std::runtime_error("from a symbolizer");
}
size_t throwing_demangler(void *, const char *, char *, size_t) { throw std::runtime_error("from a demangler"); }
int ignore_bytes(void *, const void *, size_t) { return 0; }

onstack_walk_result walk_pc(void *, const onstack_registers *registers, void *, uint64_t *frames, uint32_t) {
  frames[0] = registers->pc;
  return onstack_walk_result{1, ONSTACK_TRUNCATED_UNWINDER};
}

void burn() {
  const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 5;
  while (std::clock() < end) continue;
}

onstack_session *start(onstack_sink sink, void *data, onstack_switch threads) {
  onstack_options options;
  onstack_session *session;
  onstack_options_init(&options, sizeof(options));
  options.frequency = 200;
  options.sink = sink;
  options.sink_data = data;
  options.threads = threads;
  if (onstack_session_start(&options, &session) < 0) _exit(3);
  return session;
}

onstack_profile *sampled() {
  onstack_profile *profile;
  if (onstack_profile_new(nullptr, &profile) < 0) _exit(3);
  onstack_session *session = start(onstack_profile_sink, profile, ONSTACK_DEFAULT);
  burn();
  onstack_session_free(session);
  return profile;
}

void sink_on_the_drain_thread() {
  onstack_session *session = start(throwing_sink, nullptr, ONSTACK_ON);
  for (int i = 0; i < 100; i++) burn();
  onstack_session_free(session);
}

void sink_in_poll() {
  onstack_session *session = start(throwing_sink, nullptr, ONSTACK_OFF);
  burn();
  onstack_session_poll(session, 0);
}

void sink_in_stop() {
  onstack_session *session = start(throwing_sink, nullptr, ONSTACK_OFF);
  burn();
  onstack_session_stop(session);
}

void writer() { onstack_profile_write_pprof(sampled(), nullptr, throwing_writer, nullptr); }

void symbolizer() {
  onstack_write_options options = onstack_write_options();
  options.size = sizeof(options);
  options.symbolizer = throwing_symbolizer;
  onstack_profile_write_folded(sampled(), &options, ignore_bytes, nullptr);
}

void demangler() {
  onstack_write_options options = onstack_write_options();
  options.size = sizeof(options);
  options.demangler = throwing_demangler;
  onstack_profile_write_folded(sampled(), &options, ignore_bytes, nullptr);
}

void visitor() {
  onstack_session *session = start(nullptr, nullptr, ONSTACK_DEFAULT);
  burn();
  onstack_session_stop(session);
  onstack_session_modules(session, throwing_visitor, nullptr);
}

void init_of_an_unwinder() {
  onstack_unwinder unwinder = onstack_unwinder();
  unwinder.size = sizeof(unwinder);
  unwinder.name = "throwing";
  unwinder.init = throwing_init;
  unwinder.walk = walk_pc;
  onstack_options options;
  onstack_session *session;
  onstack_options_init(&options, sizeof(options));
  options.custom_unwinder = &unwinder;
  onstack_session_start(&options, &session);
}

void thread_filter() {
  onstack_options options;
  onstack_session *session;
  onstack_options_init(&options, sizeof(options));
  options.clock = ONSTACK_CLOCK_WALL;
  options.thread_filter = throwing_filter;
  if (onstack_session_start(&options, &session) == 0) onstack_session_free(session);
}

// The exit status of a child that runs `body` inside a catch for everything.
int status_of(void (*body)()) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    std::set_terminate([] { _exit(kTerminated); });
    alarm(60);
    try {
      body();
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int check(const char *name, void (*body)()) {
  const int status = status_of(body);
  std::printf("%s a throwing %s: %s\n", status == kTerminated ? "ok" : "not ok", name,
              status == kTerminated ? "std::terminate"
              : status == 1         ? "caught behind the library's back"
              : status == 0         ? "it was not called"
                                    : "something else");
  return status != kTerminated;
}

} // namespace

int main() {
  return check("sink on the drain thread", sink_on_the_drain_thread) + check("sink in poll", sink_in_poll) +
             check("sink in stop", sink_in_stop) + check("writer", writer) + check("symbolizer", symbolizer) +
             check("demangler", demangler) + check("visitor", visitor) + check("thread filter", thread_filter) +
             check("unwinder's init", init_of_an_unwinder) >
         0;
}

// SPDX-License-Identifier: MIT OR Apache-2.0
// Exceptions through sampled code at 10 kHz: frames are unwound by the C++ runtime while ticks walk the same stack.
// Each exception carries what its catch expects, each frame on the way counts its destructor; it goes on until enough
// ticks have come inside the runtime's unwinding itself.
#include <onstack/onstack.h>

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

const unsigned kSamplesWanted = 300; // inside _Unwind_*
const auto kLimit = std::chrono::seconds(60);

std::atomic<bool> enough(false);
std::atomic<unsigned> inside_unwinding(0), samples(0);
std::atomic<long> thrown(0), wrong(0);

bool is_unwinding(uint64_t address) {
  Dl_info info;
  return dladdr(reinterpret_cast<void *>(static_cast<uintptr_t>(address)), &info) != 0 && info.dli_sname != nullptr &&
         (std::strncmp(info.dli_sname, "_Unwind_", 8) == 0 || std::strcmp(info.dli_sname, "__cxa_throw") == 0 ||
          std::strcmp(info.dli_sname, "__gxx_personality_v0") == 0);
}

int receive(void *, const onstack_sample *sample) noexcept {
  samples++;
  for (uint32_t i = 0; i < sample->frame_count; i++) {
    if (!is_unwinding(sample->frames[i])) continue;
    if (++inside_unwinding >= kSamplesWanted) enough = true;
    break;
  }
  return 0;
}

struct Counted {
  explicit Counted(int &count) : left(count) {}
  ~Counted() { left--; }
  int &left;
};

__attribute__((noinline)) void descend(int depth, int &destructors, long number) {
  Counted counted(destructors);
  if (depth == 0) throw std::runtime_error(std::to_string(number));
  descend(depth - 1, destructors, number);
}

// Caught, kept, thrown again somewhere else, and caught by a base class.
void throw_and_check(int depth, long number) {
  int destructors = depth + 1;
  std::exception_ptr kept;
  try {
    descend(depth, destructors, number);
  } catch (...) {
    kept = std::current_exception();
  }
  thrown++;
  try {
    std::rethrow_exception(kept);
  } catch (const std::exception &error) {
    if (destructors == 0 && error.what() == std::to_string(number)) return;
  }
  wrong++;
}

void work(int seed) {
  for (long number = seed; !enough; number += 7) throw_and_check(static_cast<int>(number % 40), number);
}

} // namespace

int main() {
  onstack_options options;
  onstack_session *session;
  onstack_options_init(&options, sizeof(options));
  options.frequency = ONSTACK_MAX_FREQUENCY;
  options.sink = receive;
  const int error = onstack_session_start(&options, &session);
  if (error < 0) {
    std::printf("not ok exceptions: %s\n", onstack_strerror(error));
    return 1;
  }
  std::vector<std::thread> workers;
  for (int i = 0; i < 3; i++) workers.emplace_back(work, i);
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (!enough && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  enough = true;
  for (auto &worker : workers) worker.join();
  onstack_session_free(session);
  const bool right = inside_unwinding >= kSamplesWanted && wrong == 0 && thrown > 1000;
  std::printf("%s exceptions: %ld thrown, %ld wrong, %u samples, %u of them inside the unwinding\n",
              right ? "ok" : "not ok", thrown.load(), wrong.load(), samples.load(), inside_unwinding.load());
  return right ? 0 : 1;
}

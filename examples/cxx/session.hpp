// SPDX-License-Identifier: MIT OR Apache-2.0
// A session and a profile as C++ objects: errors are exceptions, ends are destructors. Copy it and change it.
#ifndef EXAMPLE_SESSION_HPP
#define EXAMPLE_SESSION_HPP

#include <onstack/onstack.h>
#include <onstack/profile.h>

#include <functional>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <utility>

namespace example {

struct Error : std::runtime_error {
  explicit Error(int code) : std::runtime_error(onstack_strerror(code)), code(code) {}
  int code;
};

inline int check(int code) {
  if (code < 0) throw Error(code);
  return code;
}

// Sampling lasts as long as the object. The sink is called on another thread and must not throw: the call comes from C.
class Session {
public:
  using Sink = std::function<void(const onstack_sample &)>;

  Session(unsigned frequency, Sink sink) : sink_(new Sink(std::move(sink))) {
    onstack_options options;
    check(onstack_options_init(&options, sizeof(options)));
    options.frequency = frequency;
    options.sink = receive;
    options.sink_data = sink_.get();
    onstack_session *session;
    check(onstack_session_start(&options, &session));
    session_.reset(session);
  }

  // Waits for the last sink call; the statistics stay. Stopping twice is no error.
  void stop() {
    const int code = onstack_session_stop(session_.get());
    if (code != ONSTACK_E_STOPPED) check(code);
  }

  onstack_stats stats() const {
    onstack_stats stats{};
    stats.size = sizeof(stats);
    check(onstack_session_stats(session_.get(), &stats));
    return stats;
  }

private:
  struct Free {
    void operator()(onstack_session *session) const { onstack_session_free(session); }
  };

  static int receive(void *data, const onstack_sample *sample) noexcept {
    (*static_cast<const Sink *>(data))(*sample);
    return 0;
  }

  std::unique_ptr<Sink> sink_; // before session_: the last sink call comes while the session ends
  std::unique_ptr<onstack_session, Free> session_;
};

// Samples held together by stack; several sessions may add to one.
class Profile {
public:
  Profile() {
    onstack_profile *profile;
    check(onstack_profile_new(nullptr, &profile));
    profile_.reset(profile);
  }

  void add(const onstack_sample &sample) { check(onstack_profile_sink(profile_.get(), &sample)); }

  void write_pprof(std::ostream &out) { check(onstack_profile_write_pprof(profile_.get(), nullptr, write, &out)); }

  void write_folded(std::ostream &out) { check(onstack_profile_write_folded(profile_.get(), nullptr, write, &out)); }

private:
  struct Free {
    void operator()(onstack_profile *profile) const { onstack_profile_free(profile); }
  };

  // A stream may be set to throw, and no exception may pass through C.
  static int write(void *out, const void *bytes, size_t length) noexcept {
    try {
      return static_cast<std::ostream *>(out)->write(static_cast<const char *>(bytes), static_cast<std::streamsize>(length))
                 ? 0
                 : 1;
    } catch (...) {
      return 1;
    }
  }

  std::unique_ptr<onstack_profile, Free> profile_;
};

} // namespace example

#endif

// SPDX-License-Identifier: MIT OR Apache-2.0
// Profiles two threads of itself, one of which throws and catches all the time, and prints their folded stacks.
//
//   profile [OUTPUT]     also writes a pprof file
#include "session.hpp"

#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

using Clock = std::chrono::steady_clock;

__attribute__((noinline)) void count_words(Clock::time_point end) {
  std::mt19937 random(1);
  std::map<std::string, int> words;
  while (Clock::now() < end) words[std::to_string(random() % 10000)]++;
}

__attribute__((noinline)) void refuse(int number) {
  if (number % 2 == 1) throw std::invalid_argument("an odd number");
}

__attribute__((noinline)) int throw_and_catch(Clock::time_point end) {
  int caught = 0;
  for (int i = 0; Clock::now() < end; i++) {
    try {
      refuse(i);
    } catch (const std::invalid_argument &) {
      caught++;
    }
  }
  return caught;
}

int main(int count, char **arguments) try {
  example::Profile profile;
  example::Session session(199, [&profile](const onstack_sample &sample) { profile.add(sample); });
  const auto end = Clock::now() + std::chrono::seconds(2);
  std::thread words(count_words, end);
  const int caught = throw_and_catch(end);
  words.join();
  session.stop();

  profile.write_folded(std::cout);
  if (count > 1) {
    std::ofstream file(arguments[1], std::ios::binary);
    profile.write_pprof(file);
  }
  const onstack_stats stats = session.stats();
  std::cerr << stats.ticks << " ticks, " << stats.samples << " samples, " << caught << " exceptions\n";
  return 0;
} catch (const std::exception &error) {
  std::cerr << "profile: " << error.what() << '\n';
  return 1;
}

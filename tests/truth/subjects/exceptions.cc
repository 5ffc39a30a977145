// SPDX-License-Identifier: MIT OR Apache-2.0
// C++: exceptions through frames with and without clean-ups, the library's containers, streams and virtual calls.
#include "subject.h"

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

extern const bool subject_whole = false;
extern const char subject_name[] = "exceptions";

namespace {

int cleaned;

struct Cleanup {
  ~Cleanup() { cleaned++; }
};

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
};
struct Square : Shape {
  double side = 2;
  double area() const override { return side * side; }
};

__attribute__((noinline)) int thrower(int depth) {
  if (depth == 0) throw std::runtime_error("thrown at the bottom");
  return thrower(depth - 1) + 1;
}

__attribute__((noinline)) int through_cleanups(int depth) {
  Cleanup guard;
  std::string text(40, 'x');
  return depth == 0 ? thrower(3) : through_cleanups(depth - 1) + static_cast<int>(text.size());
}

__attribute__((noinline)) int rethrow() {
  try {
    return through_cleanups(2);
  } catch (const std::logic_error &) {
    return 1;
  } catch (...) {
    cleaned++;
    throw;
  }
}

int exceptions() {
  try {
    rethrow();
  } catch (const std::exception &error) {
    return std::string(error.what()) == "thrown at the bottom" && cleaned == 4 ? 0 : 1;
  }
  return 1;
}

int containers() {
  std::map<std::string, int> words;
  std::istringstream in("one two three two one two");
  for (std::string word; in >> word;) words[word]++;
  std::vector<int> numbers(40);
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = static_cast<int>(i * 37 % 53);
  std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return a > b; });
  std::ostringstream out;
  out << words["two"] << ' ' << 3.5 << ' ' << numbers.front();
  std::unique_ptr<Shape> shape(new Square);
  return out.str().substr(0, 5) == "3 3.5" && shape->area() == 4 ? 0 : 1;
}

}  // namespace

// Streams and locales take longer to be set up than all the rest.
void subject_prepare(void) { containers(); }

int subject_run(void) { return exceptions() + containers(); }

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

volatile std::size_t result;

template <int depth> struct ladder {
  __attribute__((noinline)) static int climb(int value) {
    if (value % 97 == 0) throw std::runtime_error("rung " + std::to_string(depth));
    return ladder<depth - 1>::climb(value * 31 + depth) + 1;
  }
};
template <> struct ladder<0> {
  static int climb(int value) { return value; }
};

int throwing(int value) {
  try {
    return ladder<12>::climb(value);
  } catch (const std::exception &error) {
    return static_cast<int>(std::string(error.what()).size());
  }
}

struct shape {
  virtual ~shape() = default;
  virtual double area() const = 0;
};
struct square : shape {
  double side;
  explicit square(double s) : side(s) {}
  double area() const override { return side * side; }
};

} // namespace

extern "C" void cxx_work(int rounds) {
  std::map<std::string, std::vector<int>> table;
  std::vector<std::unique_ptr<shape>> shapes;
  for (int i = 0; i < rounds; i++) {
    table["key" + std::to_string(i % 17)].push_back(throwing(i));
    shapes.push_back(std::make_unique<square>(i));
  }
  std::sort(shapes.begin(), shapes.end(), [](const auto &a, const auto &b) { return a->area() > b->area(); });
  std::ostringstream out;
  for (auto &[key, values] : table) {
    std::function<bool(int, int)> less = [](int a, int b) { return a < b; };
    std::sort(values.begin(), values.end(), less);
    out << key << ' ' << values.size() << '\n';
  }
  std::string text = out.str();
  std::regex pattern("(key[0-9]+) ([0-9]+)");
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) result = result + (*at)[1].length();
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every form of operator new and delete; each function allocates and keeps so many bytes a round: test_heap_edges.py has the
   sums. PROGRAM ROUNDS */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <unistd.h>
#include <vector>

#define APART extern "C" __attribute__((noinline, noclone))

struct alignas(64) Wide {
  char bytes[192];
};
struct alignas(8192) Page {
  char bytes[8192];
};
struct Plain {
  char bytes[200];
};

static void *volatile kept[200000];
static int keeps;

template <class T> static T *use(T *block) {
  if (!block || reinterpret_cast<std::uintptr_t>(block) % alignof(T) != 0) std::abort();
  std::memset(static_cast<void *>(block), 1, sizeof(T));
  kept[keeps] = block; /* or the compiler leaves the pair out */
  return block;
}

APART void new_plain() {
  use(new Plain), keeps++;
  delete use(new Plain);
}
APART void new_array() {
  use(new Plain[3]), keeps++;
  delete[] use(new Plain[3]);
}
APART void new_nothrow() {
  use(new (std::nothrow) Plain), keeps++;
  Plain *again = use(new (std::nothrow) Plain);
  ::operator delete(again, std::nothrow);
}
APART void new_sized() {
  kept[keeps++] = ::operator new(500);
  void *again = kept[keeps] = ::operator new(500);
  ::operator delete (again, std::size_t{500});
  again = kept[keeps] = ::operator new[](500);
  ::operator delete[](again, std::size_t{500});
}
APART void new_aligned() {
  use(new Wide), keeps++;
  delete use(new Wide);
  delete use(new Page);
  delete[] use(new Wide[2]);
}
APART void new_aligned_nothrow() {
  use(new (std::nothrow) Wide), keeps++;
  Wide *again = use(new (std::nothrow) Wide);
  ::operator delete (again, std::align_val_t{64}, std::nothrow);
}
APART void new_aligned_sized() {
  kept[keeps++] = ::operator new (512, std::align_val_t{128});
  void *again = kept[keeps] = ::operator new (512, std::align_val_t{128});
  ::operator delete (again, std::size_t{512}, std::align_val_t{128});
}
APART void new_by_library() {
  std::vector<char> bytes;
  bytes.reserve(700);
  std::string text(99, 'x');
  auto shared = std::shared_ptr<Plain>(new Plain); /* and its counters */
  kept[keeps] = bytes.data();
  kept[keeps] = &text[0];
}

APART void too_much() {
  const volatile std::size_t most = PTRDIFF_MAX;
  if (::operator new(most, std::nothrow)) std::abort();
  if (::operator new (most, std::align_val_t{64}, std::nothrow)) std::abort();
  try {
    kept[keeps] = ::operator new(most);
    std::abort();
  } catch (const std::bad_alloc &) {
  }
}

static std::vector<std::string> of_before_main(10, std::string(100, 'y'));

int main(int count, char **arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 100;
  for (int i = 0; i < rounds; i++) {
    new_plain();
    new_array();
    new_nothrow();
    new_sized();
    new_aligned();
    new_aligned_nothrow();
    new_aligned_sized();
    new_by_library();
    if (i % 10 == 0) too_much();
    if (i % 50 == 0) usleep(30000); /* a round of the drain thread */
  }
  of_before_main.clear();
  of_before_main.shrink_to_fit();
  std::printf("%d\n", keeps);
  return 0;
}

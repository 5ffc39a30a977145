/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Runs a target without libFuzzer: every kept input, and with -random=N so many crude mutations of them, always the same
 * for the same inputs and -seed=N. For compilers and machines that have no libFuzzer (gcc, qemu-user).
 * Usage: replay_<target> [-random=N] [-seed=N] FILE|DIRECTORY...
 */
#include "fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPLAY_MOST 4096u
#define REPLAY_BYTES ((size_t)64 * 1024)

typedef struct replay_input {
  uint8_t *bytes;
  size_t size;
} replay_input;

static replay_input inputs[REPLAY_MOST];
static size_t input_count;
static char current[600]; /* what is running, for the last words */

static void on_abort(int signal) {
  ssize_t unused = write(STDERR_FILENO, current, strlen(current));
  (void)unused;
  raise(signal); /* the action is the default again */
}

static void run(const uint8_t *bytes, size_t size) {
  uint8_t *copy = fuzz_copy(bytes, size);
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
}

static void load_file(const char *path, size_t size) {
  FILE *file = fopen(path, "rb");
  if (!file || input_count == REPLAY_MOST || size > REPLAY_BYTES) {
    fprintf(stderr, "replay: %s cannot be taken: not readable, too large, or too many\n", path);
    exit(2);
  }
  replay_input *input = &inputs[input_count++];
  input->bytes = malloc(size + 1);
  input->size = input->bytes ? fread(input->bytes, 1, size, file) : 0;
  fclose(file);
  snprintf(current, sizeof(current), "while running %s\n", path);
  run(input->bytes, input->size);
}

static void load(const char *path) {
  struct stat status;
  struct dirent **names;
  char below[512];
  if (stat(path, &status) != 0) {
    perror(path);
    exit(2);
  }
  if (!S_ISDIR(status.st_mode)) {
    load_file(path, (size_t)status.st_size);
    return;
  }
  int count = scandir(path, &names, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    snprintf(below, sizeof(below), "%s/%s", path, names[i]->d_name);
    if (names[i]->d_name[0] != '.') load(below);
    free(names[i]);
  }
  if (count >= 0) free(names);
}

static uint64_t state = 88172645463325252u;
static uint64_t next(void) { /* xorshift64 */
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

static size_t mutate(uint8_t *bytes, size_t size) {
  static const uint64_t odd[] = {0, 1, 7, 8, 127, 128, 255, 0xffff, 0x7fffffff, 0xffffffff, UINT64_MAX, UINT64_MAX - 7};
  for (uint64_t changes = 1 + next() % 6; changes > 0 && size > 0; changes--) {
    size_t at = next() % size, width = (size_t)1 << next() % 4;
    switch (next() % 5) {
    case 0:
      bytes[at] ^= (uint8_t)(1u << next() % 8);
      break;
    case 1:
      bytes[at] = (uint8_t)next();
      break;
    case 2:
      if (at + width <= size) memcpy(bytes + at, &odd[next() % (sizeof(odd) / sizeof(odd[0]))], width);
      break;
    case 3: /* a piece of itself elsewhere */
      width = next() % (size - at) + 1;
      memmove(bytes + next() % (size - width + 1), bytes + at, width);
      break;
    default:
      if (next() % 4 == 0) size = at;
    }
  }
  return size;
}

static void run_random(uint64_t rounds) {
  static uint8_t bytes[REPLAY_BYTES];
  for (uint64_t round = 0; round < rounds; round++) {
    const replay_input *from = &inputs[next() % input_count];
    memcpy(bytes, from->bytes, from->size);
    snprintf(current, sizeof(current), "while running mutation %llu\n", (unsigned long long)round);
    run(bytes, mutate(bytes, from->size));
  }
}

int main(int argc, char **argv) {
  uint64_t rounds = 0;
  struct sigaction action = {.sa_handler = on_abort, .sa_flags = SA_RESETHAND | SA_NODEFER};
  sigaction(SIGABRT, &action, NULL);
  sigaction(SIGSEGV, &action, NULL);
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "-random=", 8) == 0)
      rounds = strtoull(argv[i] + 8, NULL, 10);
    else if (strncmp(argv[i], "-seed=", 6) == 0)
      state ^= strtoull(argv[i] + 6, NULL, 10) * 0x9e3779b97f4a7c15u;
    else
      load(argv[i]);
  }
  if (input_count == 0) {
    fprintf(stderr, "usage: %s [-random=N] [-seed=N] FILE|DIRECTORY...   (no input was found)\n", argv[0]);
    return 2;
  }
  run_random(rounds);
  for (size_t i = 0; i < input_count; i++) free(inputs[i].bytes);
  printf("%s: %zu inputs and %llu mutations run\n", argv[0], input_count, (unsigned long long)rounds);
  return 0;
}

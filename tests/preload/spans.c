/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Publishes a span for its thread as an OpenTelemetry library does (OTEP 4947), and works. Usage: spans SECONDS */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static const struct {
  uint8_t trace[16], span[8], valid, flags;
  uint16_t attributes;
} record = {{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff},
            {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef},
            1,
            1,
            0};

__thread const void *otel_thread_ctx_v1 = &record;

int main(int argc, char **argv) {
  const double seconds = argc > 1 ? strtod(argv[1], NULL) : 0;
  struct timespec used;
  do {
    for (volatile int i = 0; i < 100000; i++) continue;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  } while ((double)used.tv_sec + (double)used.tv_nsec * 1e-9 < seconds);
  return 0;
}

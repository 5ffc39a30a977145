/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "go_calls.h"

#include <string.h>

static const go_calls *go;

/* Go's workers, and beside them threads of this program: some that Go never sees, some that call into it and back. */
static int go_load_start(const char *mix) {
  if (go->load_start((char *)mix) != 0) return -1;
  if (!strcmp(mix, "foreign")) return matrix_threads_start(1, matrix_burn);
  if (!strcmp(mix, "callin")) return matrix_threads_start(2, go->spin);
  return 0;
}

static void go_load_stop(void) {
  matrix_threads_stop();
  go->load_stop();
}

static void go_describe(FILE *out) { fprintf(out, ",\"external\":%lld", go->external()); }

int matrix_go_main(int argc, char **argv, const go_calls *calls) {
  const matrix_host host = {
      .profile_start = calls->profile_start,
      .profile_stop = calls->profile_stop,
      .load_start = go_load_start,
      .load_stop = go_load_stop,
      .health = calls->health,
      .describe = go_describe,
  };
  go = calls;
  return matrix_main(argc, argv, &host);
}

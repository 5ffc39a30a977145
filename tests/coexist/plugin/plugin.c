/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that carries the core inside, as a plugin would: whoever opens it knows nothing of onstack. */
#include <onstack/onstack.h>

#define PLUGIN_API __attribute__((visibility("default")))

static onstack_session *session;

PLUGIN_API int plugin_start(void) {
  onstack_options options;
  onstack_options_init(&options, sizeof(options));
  options.frequency = 1000;
  return onstack_session_start(&options, &session);
}

PLUGIN_API unsigned long plugin_stop(void) {
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_session_stop(session);
  onstack_session_stats(session, &stats);
  onstack_session_free(session);
  session = 0;
  return stats.ticks;
}

PLUGIN_API const char *plugin_version(void) { return onstack_version(); }

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What clocks of time have in common: a rate. */
#include "control/tick/clock.h"

#define RATE_OVERRUN_NS 250000000u /* how much one sample may stand for */

int onstack_clock_accept_rate(const onstack_options *options, onstack_settings *settings) {
  if (options->heap_interval != 0 || options->heap_objects != 0) return ONSTACK_E_OPTIONS;
  if (options->frequency > ONSTACK_MAX_FREQUENCY) return ONSTACK_E_FREQUENCY;
  settings->period_ns = 1000000000u / (options->frequency ? options->frequency : ONSTACK_DEFAULT_FREQUENCY);
  settings->period = settings->period_ns;
  settings->weight_max = (uint32_t)(RATE_OVERRUN_NS / settings->period_ns);
  if (settings->weight_max == 0) settings->weight_max = 1;
  settings->heap_objects = 0;
  return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What clocks of time have in common: a rate. */
#include "sampler/source/clock.h"

#define RATE_OVERRUN_NS 250000000u /* how much one sample may stand for */

#define RATE_TEXT(number) RATE_TEXT_OF(number)
#define RATE_TEXT_OF(number) #number

int onstack_clock_accept_rate(const onstack_options *options, onstack_settings *settings, const char **fault) {
  *fault = "heap_interval: needs the heap clock";
  if (options->heap_interval != 0) return ONSTACK_E_OPTIONS;
  *fault = "heap_objects: needs the heap clock";
  if (options->heap_objects != 0) return ONSTACK_E_OPTIONS;
  *fault = "frequency: give 1 to " RATE_TEXT(ONSTACK_MAX_FREQUENCY) " Hz";
  if (options->frequency > ONSTACK_MAX_FREQUENCY) return ONSTACK_E_FREQUENCY;
  *fault = NULL;
  settings->period_ns = 1000000000u / (options->frequency ? options->frequency : ONSTACK_DEFAULT_FREQUENCY);
  settings->period = settings->period_ns;
  settings->weight_max = (uint32_t)(RATE_OVERRUN_NS / settings->period_ns);
  if (settings->weight_max == 0) settings->weight_max = 1;
  settings->heap_objects = 0;
  return 0;
}

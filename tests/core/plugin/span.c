/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An OpenTelemetry library's side: the pointer to what a thread is doing. */
__thread void *otel_thread_ctx_v1;

void span_set(void *record);
void span_set(void *record) { *(void *volatile *)&otel_thread_ctx_v1 = record; }

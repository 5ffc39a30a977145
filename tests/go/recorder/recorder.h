/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Keeps every sample of one session in memory, as raw addresses, and writes them to a text file after the stop. Used by
 * the Go hosts through cgo and by the C hosts directly.
 */
#ifndef RECORDER_H
#define RECORDER_H

/* Starts a session of the default unwinder; 0 or an error of onstack. One at a time. */
int recorder_start(unsigned frequency);

/*
 * Stops it and writes `path`. Lines: "map <line of /proc/self/maps>", "sample <tid> <truncation> <addresses, hex>",
 * "code <address> <the 8 bytes before it, hex>", "stats <ticks> <recorded> <samples> <truncated>". 0, or an error of
 * onstack, or -errno.
 */
int recorder_stop(const char *path);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The two copies of the core that are not Go's: a Rust library's, linked in, and a plugin's, opened at run time. */
#ifndef COEXIST_COPIES_H
#define COEXIST_COPIES_H

#include <stdint.h>

int32_t coexist_rust_start(int32_t hertz); /* 0, or anything else for an error */
int64_t coexist_rust_stop(void);           /* ticks; negative for an error */

/* Opens the plugin; its version, or NULL. */
const char *copies_plugin_open(const char *path);
int copies_plugin_start(void);
long copies_plugin_stop(void);

#endif

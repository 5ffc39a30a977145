/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_AARCH64_GO_NATIVE_H
#define ONSTACK_AARCH64_GO_NATIVE_H

/* Burns `milliseconds` of the thread's CPU time in native_leaf < native_middle < native_outer. */
void native_outer(int milliseconds);

/* Calls goCallback(depth, milliseconds) from native_callback < native_bridge. */
void native_bridge(int depth, int milliseconds);

void native_nothing(void);

#endif

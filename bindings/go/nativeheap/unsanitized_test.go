// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build !(race || asan || msan)

package nativeheap_test

const sanitized = false

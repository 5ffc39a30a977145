// SPDX-License-Identifier: MIT OR Apache-2.0

// Package cxx is work in a C++ library: templates, exceptions, callbacks of the standard library.
package cxx

/*
#cgo CXXFLAGS: -O2 -fomit-frame-pointer -std=c++17
void cxx_work(int rounds);
*/
import "C"

// Work does a few milliseconds of it.
func Work() { C.cxx_work(60) }

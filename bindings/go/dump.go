// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"compress/gzip"
	"fmt"
	"io"
)

// Dump writes where every thread of the process is now, as text, for programs that hang: stacks of Go, C, C++ and Rust, with
// state, the system call that a thread waits in, what it waits on, and the thread that has the lock. Nobody is stopped: who
// waits is looked at from outside, as by ClockWall, and who runs gets one tick. Threads with the same stack stand together. It
// takes 30 ms, 0.3 s at most, and what names take.
//
// It tells of threads. Goroutines that wait without one are in Go's own goroutine profile (debug=2).
//
// Errors: those of Start with ClockWall, and of w.
func Dump(w io.Writer) error {
	text, err := dump()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// DumpProfile writes the same as gzip-compressed pprof, one sample a thread, with the labels state, wait, on and holder. A
// comment "onstack.dump without_stack=N" says how many threads are missing in it.
func DumpProfile(w io.Writer) error {
	raw, err := dumpProfile()
	if err != nil {
		return err
	}
	_, err = compress(raw, w)
	return err
}

// dumpComment is what a dump's profile says of itself.
func dumpComment(missing int) string { return fmt.Sprintf("onstack.dump without_stack=%d", missing) }

// compress says how many bytes w took.
func compress(raw []byte, w io.Writer) (int64, error) {
	counted := &countingWriter{w: w}
	packer := gzip.NewWriter(counted)
	_, err := packer.Write(raw)
	if err == nil {
		err = packer.Close()
	}
	return counted.n, err
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

import (
	"bytes"
	"io"
	"testing"
)

// Writers that fail at any place get their error back, and what was counted is what they took.
func FuzzCompressToBrokenWriter(f *testing.F) {
	f.Add([]byte("profile"), uint16(0))
	f.Add(bytes.Repeat([]byte("profile"), 9000), uint16(100))
	f.Fuzz(func(t *testing.T, raw []byte, room uint16) {
		broken := &limitedWriter{room: int(room)}
		written, err := compress(raw, broken)
		if broken.failed != (err != nil) || written != int64(broken.taken) {
			t.Fatalf("failed %v, error %v, %d written, %d taken", broken.failed, err, written, broken.taken)
		}
	})
}

type limitedWriter struct {
	room, taken int
	failed      bool
}

func (w *limitedWriter) Write(b []byte) (int, error) {
	n := min(len(b), w.room-w.taken)
	w.taken += n
	if n < len(b) {
		w.failed = true
		return n, io.ErrShortWrite
	}
	return n, nil
}

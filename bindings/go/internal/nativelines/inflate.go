// SPDX-License-Identifier: MIT OR Apache-2.0

package nativelines

import (
	"bufio"
	"compress/zlib"
	"errors"
	"io"
)

var errPacked = errors.New("broken packed data")

const mostRatio = 1032 // bytes that one packed byte can become: a copy of 258 for two bits

// inflater unpacks a stream from its beginning on, as far as it is asked to.
type inflater struct {
	packed *bufio.Reader
	plain  io.ReadCloser
	there  uint64 // unpacked so far
}

// newInflater unpacks so many packed bytes to `size` others.
func newInflater(packed io.ReaderAt, length, size uint64) (*inflater, error) {
	f := &inflater{packed: bufio.NewReaderSize(nil, 32<<10)}
	return f, f.begin(packed, length, size)
}

// begin does so with an inflater that is not used any more.
func (f *inflater) begin(packed io.ReaderAt, length, size uint64) (err error) {
	if size > length*mostRatio {
		return errPacked
	}
	f.packed.Reset(io.NewSectionReader(packed, 0, int64(length)))
	f.there = 0
	if f.plain == nil {
		f.plain, err = zlib.NewReader(f.packed)
		return err
	}
	return f.plain.(zlib.Resetter).Reset(f.packed, nil)
}

// unpack goes on to `to`, and puts what lies behind `from` into its place in `whole`. Neither is before that of the last call.
func (f *inflater) unpack(whole []byte, from, to uint64) error {
	if skipped, err := io.CopyN(io.Discard, f.plain, int64(max(from, f.there)-f.there)); err != nil {
		f.there += uint64(skipped)
		return errPacked
	}
	from = max(from, f.there)
	n, err := io.ReadFull(f.plain, whole[from:to])
	f.there = from + uint64(n)
	if err != nil && from < to {
		return errPacked
	}
	return nil
}

// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"compress/gzip"
	"io"
)

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

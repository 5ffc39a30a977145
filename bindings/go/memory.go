// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// memoryPrefix begins a line of the account; " of=" and the part's name follow the number.
const memoryPrefix = "onstack.memory bytes="

// WriteMemory writes a table of what the process's resident memory is made of: Go's objects, stacks and free memory, native
// blocks in use that are in the heap profile (see WriteHeapProfile) or not, what malloc keeps free, stacks of threads, code,
// files, and what is left unexplained. The parts add up to the first line. It takes milliseconds for each GiB.
//
// Errors: those of w, a syscall.Errno where /proc cannot be read, ErrUnsupported.
func WriteMemory(w io.Writer) error {
	lines, err := memory()
	if err != nil {
		return err
	}
	var table bytes.Buffer
	whole := 0.0
	for _, line := range strings.Split(string(lines), "\n") {
		number, part, found := strings.Cut(strings.TrimPrefix(line, memoryPrefix), " of=")
		value, err := strconv.ParseFloat(number, 64)
		if !found || err != nil {
			continue
		}
		if whole == 0 {
			whole = max(value, 1)
		}
		fmt.Fprintf(&table, "%10.2f MiB %6.2f%%  %s\n", value/(1<<20), 100*value/whole, part)
	}
	_, err = w.Write(table.Bytes())
	return err
}

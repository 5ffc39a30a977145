// SPDX-License-Identifier: MIT OR Apache-2.0

// timed prints how many nanoseconds of CPU time package work takes. Without a profiler: `go build -pgo` compiles all that a
// program consists of.
package main

import (
	"fmt"
	"syscall"

	"github.com/onstack-profiler/onstack/bindings/go/testdata/pgo/work"
)

func used() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano()
}

func main() {
	work.Do(100_000)
	before, sum := used(), work.Do(5_000_000)
	fmt.Println(used()-before, sum)
}

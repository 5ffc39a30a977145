// SPDX-License-Identifier: MIT OR Apache-2.0

// Both profilers take package work at the same time: pgo GO-PROFILE ONSTACK-PROFILE.
package main

import (
	"fmt"
	"log"
	"os"
	"runtime/pprof"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/testdata/pgo/work"
)

func create(name string) *os.File {
	file, err := os.Create(name)
	if err != nil {
		log.Fatal(err)
	}
	return file
}

func main() {
	theirs, ours := create(os.Args[1]), create(os.Args[2])
	if err := pprof.StartCPUProfile(theirs); err != nil {
		log.Fatal(err)
	}
	if err := onstack.StartCPUProfile(ours, onstack.WithRate(100)); err != nil {
		log.Fatal(err)
	}
	sum := 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		sum += work.Do(100_000)
	}
	if err := onstack.StopCPUProfile(); err != nil {
		log.Fatal(err)
	}
	pprof.StopCPUProfile()
	fmt.Println(sum)
}

// SPDX-License-Identifier: MIT OR Apache-2.0

// Work that a profile makes faster: a call through an interface that nearly always meets one type, and a function that the
// inliner finds too costly. Both profilers take it at the same time: pgo GO-PROFILE ONSTACK-PROFILE.
package main

import (
	"fmt"
	"log"
	"os"
	"runtime/pprof"
	"strings"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

type (
	shape  interface{ area(int) int }
	square struct{ side int }
	circle struct{ radius int }
)

func (s *square) area(n int) int { return s.side*s.side + n }
func (c *circle) area(n int) int { return c.radius*c.radius*3 + n }

func mix(text string, n int) int {
	sum := n
	for _, c := range text {
		switch {
		case c > 'x':
			sum = sum*31 + int(c)
		case c > 'm':
			sum = sum*17 ^ int(c)
		case c > 'c':
			sum = sum<<3 - int(c)
		default:
			sum += int(c) * 7
		}
		if sum > 1<<40 {
			sum %= 1 << 20
		}
	}
	return sum + len(strings.TrimSpace(text))
}

func work(shapes []shape, rounds int) int {
	sum := 0
	for i := 0; i < rounds; i++ {
		sum += mix("axmz", i)
		for _, s := range shapes {
			sum += s.area(i)
		}
	}
	return sum
}

func create(name string) *os.File {
	file, err := os.Create(name)
	if err != nil {
		log.Fatal(err)
	}
	return file
}

func main() {
	shapes := []shape{&circle{3}}
	for i := range 16 {
		shapes = append(shapes, &square{i})
	}
	theirs, ours := create(os.Args[1]), create(os.Args[2])
	if err := pprof.StartCPUProfile(theirs); err != nil {
		log.Fatal(err)
	}
	if err := onstack.StartCPUProfile(ours, onstack.WithRate(100)); err != nil {
		log.Fatal(err)
	}
	sum := 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		sum += work(shapes, 100_000)
	}
	if err := onstack.StopCPUProfile(); err != nil {
		log.Fatal(err)
	}
	pprof.StopCPUProfile()
	fmt.Println(sum)
}

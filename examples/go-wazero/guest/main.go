// SPDX-License-Identifier: MIT OR Apache-2.0

// Command guest is what the service runs: GOOS=wasip1 GOARCH=wasm go build -o guest.wasm ./guest
package main

import (
	"fmt"
	"slices"
	"strings"
)

//go:noinline
func digest(text string) (sum uint32) {
	for i := range len(text) {
		sum = sum*31 + uint32(text[i])
	}
	return sum
}

//go:noinline
func sorted(count int) []uint32 {
	all := make([]uint32, count)
	for i := range all {
		all[i] = uint32(i) * 2654435761 % 100_003
	}
	slices.SortFunc(all, func(a, b uint32) int { return int(a) - int(b) })
	return all
}

//go:noinline
func serve() (sum uint32) {
	text := strings.Repeat("many requests of ", 2000)
	for round := range 150 {
		sum += digest(text[round:]) + sorted(4000)[round]
	}
	return sum
}

func main() { fmt.Println(serve()) }

// SPDX-License-Identifier: MIT OR Apache-2.0

// Package work is what a profile makes faster: a call through an interface that nearly always meets one type, and a function
// that the inliner finds too costly.
package work

import "strings"

type (
	shape  interface{ area(int) int }
	square struct{ side int }
	circle struct{ radius int }
)

func (s *square) area(n int) int { return s.side*s.side + n }
func (c *circle) area(n int) int { return c.radius*c.radius*3 + n }

// mix has a short way, too, which costs less than the call: where it is inlined the compiler knows which way it goes.
func mix(text string, n int) int {
	if text == "" {
		return n ^ n>>7
	}
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

func run(shapes []shape, rounds int) int {
	sum := 0
	for i := 0; i < rounds; i++ {
		sum += mix("axmz", i)
		for _, s := range shapes {
			sum = mix("", sum+s.area(i))
		}
	}
	return sum
}

// Do works for so many rounds. Its result keeps the compiler from leaving them out.
func Do(rounds int) int {
	shapes := []shape{&circle{3}}
	for i := range 16 {
		shapes = append(shapes, &square{i})
	}
	return run(shapes, rounds)
}

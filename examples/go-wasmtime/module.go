// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

const functionsPerModule = 300

// moduleText generates a WebAssembly module of its own for each seed: functions with loops, memory and calls, so that
// the compiler's register allocator and optimizer have something to do.
func moduleText(seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	b.WriteString("(module (memory 1)\n")
	for i := range functionsPerModule {
		fmt.Fprintf(&b, "(func $f%d (export \"f%d\") (param $a i64) (param $b i64) (result i64)\n", i, i)
		b.WriteString("(local $c i64) (local $i i32)\n(loop $again\n")
		for range 12 + random.IntN(12) {
			writeStatement(&b, random, i)
		}
		b.WriteString("(local.set $i (i32.add (local.get $i) (i32.const 1)))\n")
		fmt.Fprintf(&b, "(br_if $again (i32.lt_u (local.get $i) (i32.const %d))))\n", 2+random.IntN(30))
		b.WriteString("(i64.add (local.get $c) (local.get $b)))\n")
	}
	b.WriteString(")\n")
	return b.String()
}

var (
	locals     = []string{"$a", "$b", "$c"}
	operations = []string{"add", "sub", "mul", "xor", "and", "or", "shl", "shr_u", "rotl"}
)

// writeStatement assigns to a local: arithmetic, a load and store, or a call of an earlier function.
func writeStatement(b *strings.Builder, random *rand.Rand, function int) {
	local := func() string { return locals[random.IntN(len(locals))] }
	operation := operations[random.IntN(len(operations))]
	switch kind := random.IntN(10); {
	case kind == 0 && function > 0:
		fmt.Fprintf(b, "(local.set %s (call $f%d (local.get %s) (local.get %s)))\n", local(), random.IntN(function),
			local(), local())
	case kind <= 2:
		address := random.IntN(8000) * 8
		fmt.Fprintf(b, "(i64.store (i32.const %d) (i64.%s (i64.load (i32.const %d)) (local.get %s)))\n", address,
			operation, address, local())
	default:
		fmt.Fprintf(b, "(local.set %s (i64.%s (local.get %s) (i64.add (local.get %s) (i64.const %d))))\n", local(),
			operation, local(), local(), random.Int32())
	}
}

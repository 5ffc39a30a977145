// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build !record

// Command go samples Go and C burners of known shape and checks whole stacks by name: pure Go, C without frame pointers
// below Go, C and Go nested in each other while the goroutine's stack grows, stacks that do nothing but grow, and calls of
// C that do nothing. Prints one line a check.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/onstack-profiler/onstack/bindings/go"
)

func beginsWith(names ...string) func(string) bool {
	return func(s string) bool {
		for _, name := range names {
			if strings.HasPrefix(s, name+";") {
				return true
			}
		}
		return false
	}
}

// goRoot is the end of a stack that began on a goroutine of onGoroutine.
const goRoot = "main.onGoroutine.func1;runtime.goexit;"

const intoC = "runtime.asmcgocall;runtime.cgocall;"

func pureGo() {
	mine := beginsWith("main.goLeaf", "main.goSmall", "main.goTiny", "main.goZero", "main.goSum", "runtime.duffzero",
		"runtime.duffcopy")
	stacks, stats := sample(mine, func() { onGoroutine(func() { goOuter(2 * time.Second) }) })
	tail := "main.goMiddle;main.goOuter;main.pureGo.func1.1;" + goRoot
	verify("pure Go", 990, stacks, mine,
		func(s string) bool {
			switch strings.TrimSuffix(s, tail) {
			case "main.goLeaf;", "main.goSmall;", "main.goTiny;main.goSmall;", "main.goZero;", "main.goSum;main.goZero;",
				"runtime.duffzero;main.goZero;", "runtime.duffcopy;main.goZero;":
				return strings.HasSuffix(s, tail)
			}
			return false
		})
	rooted(stacks, stats, "pure Go")
}

// rooted weighs samples of whatever leaf by how they end. The kernel's tick can fall into the switch itself.
func rooted(stacks []stack, stats onstack.Stats, name string) {
	verify(name+" ends in its root", 990, stacks, func(string) bool { return true }, func(s string) bool {
		for _, root := range []string{"runtime.goexit;", "runtime.goexit.abi0;", "runtime.mstart;", "runtime.mstart.abi0;",
			"runtime.mcall;", "runtime.mcall.abi0;", "runtime.goschedImpl;runtime.gopreempt_m;runtime.newstack;runtime.morestack;", "runtime.rt0_go.abi0;", "thread_start;", "__clone;", "clone;"} {
			if strings.HasSuffix(s, root) {
				return true
			}
		}
		// Stacks that grow are not followed by frame pointers: the runtime clears them there.
		return byRecords && strings.HasSuffix(s, "runtime.newstack;runtime.morestack;[truncated: switch of stacks];")
	})
	fmt.Printf("   %d samples, truncated %d: %v\n", stats.Samples, stats.Truncated, stats.TruncatedBy)
}

func native() {
	mine := beginsWith("native_leaf", "native_middle")
	stacks, stats := sample(mine, func() { onGoroutine(func() { callNative(1500 * time.Millisecond) }) })
	verify("C below Go", 990, stacks, mine, func(s string) bool {
		s = strings.TrimPrefix(s, "native_leaf;")
		if byRecords {
			s = strings.TrimPrefix(s, "native_middle;")
			return strings.HasPrefix(s, "native_outer;") && fromC(s)
		}
		return strings.HasPrefix(s, "native_middle;native_outer;") && fromC(s)
	})
	rooted(stacks, stats, "C below Go")
}

// fromC: a stack that is whole from the call of native_outer on.
func fromC(s string) bool {
	return strings.Contains(s, ";"+intoC) &&
		strings.HasSuffix(s, "main._Cfunc_native_outer;main.callNative;main.native.func1.1;"+goRoot)
}

func callbacks() {
	const depth = 3
	mine := beginsWith("native_leaf")
	stacks, stats := sample(mine, func() {
		onGoroutine(func() {
			for range 20 {
				onGoroutine(func() { callBridge(depth, 120*time.Millisecond) })
			}
		})
	})
	exact := func(s string) bool {
		return strings.Count(s, "native_callback;native_bridge;") == depth+1 &&
			strings.Count(s, "main.goCallback;") == depth+1 &&
			strings.Count(s, "main._Cfunc_native_bridge;main.callBridge;") == depth+1 &&
			strings.HasSuffix(s, "main.callBridge;main.callbacks.func1.1.1;"+goRoot)
	}
	verify("C and Go nested four deep, Go leaf, stacks that grow", 990, stacks, beginsWith("main.goLeaf", "main.goTiny", "main.goZero"), exact)
	verify("C and Go nested four deep, C leaf", 990, stacks, mine, exact)
	rooted(stacks, stats, "nested")
}

// growing: a sample below morestack goes on with the function that called it and has no frame yet.
func growing() {
	mine := func(s string) bool { return strings.Contains(s, "runtime.newstack;runtime.morestack;main.") }
	stacks, stats := sample(mine, func() {
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			onGoroutine(growOnce)
		}
	})
	verify("the goroutine above morestack", 990, stacks, mine, func(s string) bool {
		_, above, _ := strings.Cut(s, "runtime.morestack;")
		for strings.HasPrefix(above, "main.grow;") {
			above = strings.TrimPrefix(above, "main.grow;")
		}
		return above == "main.growOnce;"+goRoot
	})
	rooted(stacks, stats, "growing")
}

// pings: a sample can fall into any instruction of the switches between stacks.
func pings() {
	mine := func(s string) bool { return strings.Contains(s, "main.callNothing;") }
	stacks, stats := sample(mine, func() {
		onGoroutine(func() {
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
				callNothing(2000)
			}
		})
	})
	verify("calls that do nothing", 990, stacks, mine, func(s string) bool {
		for _, way := range []string{"", "runtime.cgocall;", intoC} {
			if strings.Contains(";"+s, ";"+way+"main._Cfunc_native_nothing;main.callNothing;main.pings.func2.1;"+goRoot) {
				return true
			}
		}
		s = strings.TrimPrefix(s, "runtime.asyncPreempt;")
		return s == "main.callNothing;main.pings.func2.1;"+goRoot
	})
	rooted(stacks, stats, "calls that do nothing")
}

// labels: what runtime/pprof.Do gave the goroutine is read by the layout that the walk through morestack uses, too.
func labels() {
	mine := beginsWith("main.goLeaf", "main.goSmall", "main.goZero", "native_leaf")
	stacks, stats := sample(mine, func() {
		onGoroutine(func() {
			pprof.Do(context.Background(), pprof.Labels("kind", "burn"), func(context.Context) {
				goOuter(time.Second)
				callNative(time.Second)
			})
		})
	})
	var all, labelled int64
	for _, s := range stacks {
		if mine(s.names) {
			all += s.weight
			if s.label == "burn" {
				labelled += s.weight
			}
		}
	}
	check(stats.GoroutineLabels && all >= 100 && labelled*1000 >= all*990, "labels of goroutines",
		"%d of %d ticks have them; known: %v", labelled, all, stats.GoroutineLabels)
}

func main() {
	native()
	callbacks()
	if !byRecords {
		pureGo()
		growing()
		pings()
		labels()
	}
	if failed {
		os.Exit(1)
	}
}

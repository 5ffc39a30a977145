// SPDX-License-Identifier: MIT OR Apache-2.0

// Command go samples Go and C burners of known shape and checks whole stacks by name: pure Go, C without frame pointers
// below Go, and C and Go nested in each other while the goroutine's stack grows. Prints one line a check.
package main

import (
	"bytes"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	"github.com/onstack-profiler/onstack/bindings/go"
)

var failed bool

func check(good bool, name, format string, args ...any) {
	word := "ok"
	if !good {
		word, failed = "not ok", true
	}
	fmt.Printf("%s go/%s: %s\n", word, name, fmt.Sprintf(format, args...))
}

// stack is a sample's function names, leaf first, in one string: "leaf;caller;...;root;".
type stack struct {
	names  string
	weight int64
}

func sample(work func()) ([]stack, onstack.Stats) {
	p, err := onstack.Start(onstack.WithRate(250), onstack.WithMaxDepth(512))
	if err != nil {
		fmt.Println("not ok go/start:", err)
		os.Exit(1)
	}
	work()
	if err := p.Stop(); err != nil {
		fmt.Println("not ok go/stop:", err)
		os.Exit(1)
	}
	var raw bytes.Buffer
	if _, err := p.WriteTo(&raw); err != nil {
		fmt.Println("not ok go/write:", err)
		os.Exit(1)
	}
	stats := p.Stats()
	p.Close()
	parsed, err := profile.Parse(&raw)
	if err != nil {
		fmt.Println("not ok go/parse:", err)
		os.Exit(1)
	}
	var stacks []stack
	for _, s := range parsed.Sample {
		var b strings.Builder
		for _, location := range s.Location {
			for _, line := range location.Line {
				b.WriteString(line.Function.Name + ";")
			}
			if len(location.Line) == 0 {
				fmt.Fprintf(&b, "%#x;", location.Address)
			}
		}
		stacks = append(stacks, stack{b.String(), s.Value[0]})
	}
	return stacks, stats
}

// verify weighs the stacks that `mine` holds: those that are not exact are printed.
func verify(name string, percent int64, stacks []stack, mine, exact func(string) bool) {
	var all, good, samples int64
	wrong := map[string]int64{}
	for _, s := range stacks {
		samples += s.weight
		if !mine(s.names) {
			continue
		}
		all += s.weight
		if exact(s.names) {
			good += s.weight
		} else {
			wrong[s.names] += s.weight
		}
	}
	check(all >= 100 && good*100 >= all*percent, name, "%d of %d ticks exact (%d in all)", good, all, samples)
	var list []string
	for names := range wrong {
		list = append(list, names)
	}
	sort.Slice(list, func(i, k int) bool { return wrong[list[i]] > wrong[list[k]] })
	for i, names := range list {
		if i == 8 {
			fmt.Printf("   ... %d more\n", len(list)-i)
			break
		}
		fmt.Printf("   inexact x%d: %s\n", wrong[names], names)
	}
}

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
	stacks, stats := sample(func() { onGoroutine(func() { goOuter(2 * time.Second) }) })
	tail := "main.goMiddle;main.goOuter;main.pureGo.func1.1;" + goRoot
	verify("pure Go", 99, stacks,
		beginsWith("main.goLeaf", "main.goSmall", "main.goTiny", "main.goZero", "main.goSum", "runtime.duffzero", "runtime.duffcopy"),
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
	verify(name+" ends in its root", 98, stacks, func(string) bool { return true }, func(s string) bool {
		for _, root := range []string{"runtime.goexit;", "runtime.goexit.abi0;", "runtime.mstart;", "runtime.mstart.abi0;",
			"runtime.mcall;", "runtime.mcall.abi0;", "runtime.schedule;runtime.goschedImpl;runtime.gopreempt_m;runtime.newstack;runtime.morestack;", "runtime.rt0_go.abi0;", "thread_start;", "__clone;", "clone;"} {
			if strings.HasSuffix(s, root) {
				return true
			}
		}
		return false
	})
	fmt.Printf("   %d samples, truncated %d: %v\n", stats.Samples, stats.Truncated, stats.TruncatedBy)
}

func native() {
	stacks, stats := sample(func() { onGoroutine(func() { callNative(1500 * time.Millisecond) }) })
	verify("C without frame pointers below Go", 99, stacks, beginsWith("native_leaf", "native_middle"), func(s string) bool {
		s = strings.TrimPrefix(s, "native_leaf;")
		return strings.HasPrefix(s, "native_middle;native_outer;") && strings.Contains(s, ";"+intoC) &&
			strings.HasSuffix(s, "main._Cfunc_native_outer;main.callNative;main.native.func1.1;"+goRoot)
	})
	rooted(stacks, stats, "C below Go")
}

func callbacks() {
	const depth = 3
	stacks, stats := sample(func() {
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
	verify("C and Go nested four deep, Go leaf, stacks that grow", 99, stacks, beginsWith("main.goLeaf", "main.goTiny", "main.goZero"), exact)
	verify("C and Go nested four deep, C leaf", 99, stacks, beginsWith("native_leaf"), exact)
	rooted(stacks, stats, "nested")
}

func main() {
	pureGo()
	native()
	callbacks()
	if failed {
		os.Exit(1)
	}
}

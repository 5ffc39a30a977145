// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type tree struct {
	left, right *tree
	payload     [6]uint64
}

func grow(depth int) *tree {
	if depth == 0 {
		return &tree{}
	}
	return &tree{left: grow(depth - 1), right: grow(depth - 1)}
}

var sink atomic.Pointer[tree]

func allocate() {
	for range 20 {
		sink.Store(grow(11))
	}
	runtime.GC()
}

// talk is channels, select and goroutine switches.
func talk() {
	questions, answers, quit := make(chan int), make(chan int, 3), make(chan struct{})
	go func() {
		for {
			select {
			case n := <-questions:
				answers <- n * 2
			case <-quit:
				close(answers)
				return
			}
		}
	}()
	for i := range 2000 {
		select {
		case questions <- i:
		case <-answers:
		}
		select {
		case <-answers:
		default:
			runtime.Gosched()
		}
	}
	close(quit)
	for range answers {
	}
}

func wait() {
	var fired sync.WaitGroup
	for i := range 100 {
		fired.Add(1)
		time.AfterFunc(time.Duration(i)*10*time.Microsecond, fired.Done)
	}
	time.Sleep(50 * time.Microsecond)
	fired.Wait()
}

//go:noinline
func deep(n int, pad [16]uint64) uint64 {
	if n == 0 {
		return pad[3]
	}
	pad[n&15]++
	return deep(n-1, pad) + pad[n&7]
}

// recurse begins with a small stack each time, so that it is copied on the way.
func recurse() {
	var done sync.WaitGroup
	for i := range 20 {
		done.Add(1)
		go func() { defer done.Done(); deep(20*i, [16]uint64{}) }()
	}
	done.Wait()
}

//go:noinline
func breakDown(p *tree, n int) (result int) {
	defer func() {
		if recover() != nil {
			result = n
		}
	}()
	if n > 3 {
		return breakDown(p, n-1)
	}
	if n == 3 {
		panic("three")
	}
	return int(p.payload[0])
}

func unwind() {
	for i := range 300 {
		breakDown(nil, 2+i%6)
	}
	_ = debug.Stack()
}

type shape struct {
	Name  string
	Sides []int
	Inner map[string]float64
}

func (s *shape) Area(scale int) int { return scale * len(s.Sides) }

func reflectively() {
	s := &shape{"a", []int{3, 2, 1}, map[string]float64{"x": 1.5, "y": 2.5}}
	for range 50 {
		reflect.ValueOf(s).MethodByName("Area").Call([]reflect.Value{reflect.ValueOf(3)})
		swap := reflect.MakeFunc(reflect.TypeOf(func(int, int) int { return 0 }), func(in []reflect.Value) []reflect.Value {
			return []reflect.Value{in[1]}
		})
		swap.Call([]reflect.Value{reflect.ValueOf(1), reflect.ValueOf(2)})
		text, _ := json.Marshal(s)
		var back shape
		_ = json.Unmarshal(text, &back)
	}
}

func format() {
	words := strings.Fields(strings.Repeat("the quick brown fox jumps over ", 30))
	sort.Slice(words, func(i, j int) bool { return words[i] < words[j] })
	for i := range 50 {
		_ = fmt.Sprintf("%v %q %08x %g", words[i], words[i], i, float64(i)/3)
	}
}

// clock is the vDSO, called on g0's stack.
func clock() {
	for range 3000 {
		_ = time.Now()
	}
}

func system() {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	defer r.Close()
	defer w.Close()
	buffer := make([]byte, 64)
	for range 200 {
		_, _ = w.Write(buffer)
		_, _ = r.Read(buffer)
	}
}

func mapWork() {
	m := map[string]int{}
	for i := range 3000 {
		m[fmt.Sprint(i%700)] += i
	}
	for k := range m {
		delete(m, k)
	}
}

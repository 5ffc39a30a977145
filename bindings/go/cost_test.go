// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

// TestCost compares an HTTP server's CPU time per request without a profiler, with Go's (100 Hz, which it is built for)
// and with ours at the same rate, in rounds whose order is random. Ratios within a round are free of what the machine
// does otherwise. It is long, and no test of a busy machine: ONSTACK_TEST_COST=ROUNDS runs it (tests/bench/http/run.sh).
func TestCost(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("ONSTACK_TEST_COST"))
	if err != nil || rounds < 3 {
		t.Skip("set ONSTACK_TEST_COST to a number of rounds, 3 at least; 14 take a minute")
	}
	const length = 1200 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 40 {
			fmt.Fprintf(w, "<li>%d %s</li>\n", i, r.URL.Path)
		}
	}))
	defer server.Close()
	around := map[string]func(func() float64) float64{
		"none": func(f func() float64) float64 { return f() },
		"go": func(f func() float64) float64 {
			if err := pprof.StartCPUProfile(io.Discard); err != nil {
				t.Fatal(err)
			}
			defer pprof.StopCPUProfile()
			return f()
		},
		"onstack": func(f func() float64) float64 {
			p := start(t, onstack.WithRate(100))
			defer p.Close()
			return f()
		},
	}
	perRequest(t, server.URL, length)
	var ours, native, both []float64
	for range rounds {
		took := map[string]float64{}
		names := []string{"none", "go", "onstack"}
		rand.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
		for _, name := range names {
			took[name] = around[name](func() float64 { return perRequest(t, server.URL, length) })
		}
		native = append(native, took["go"]/took["none"])
		ours = append(ours, took["onstack"]/took["none"])
		both = append(both, took["onstack"]/took["go"])
	}
	t.Logf("CPU time per request, ratio and 95 %% interval of %d rounds: Go's profiler %s, onstack %s; onstack to Go's %s", rounds,
		interval(native), interval(ours), interval(both))
}

// perRequest is the process's CPU time for one request, client and server, in seconds.
func perRequest(t *testing.T, url string, length time.Duration) float64 {
	t.Helper()
	before, end := testburn.CPUTime(), time.Now().Add(length)
	var clients sync.WaitGroup
	counts := make([]int, 2)
	for i := range counts {
		clients.Go(func() {
			for ; time.Now().Before(end); counts[i]++ {
				response, err := http.Get(url)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	clients.Wait()
	return (testburn.CPUTime() - before).Seconds() / float64(counts[0]+counts[1])
}

func interval(ratios []float64) string {
	var mean, square float64
	for _, r := range ratios {
		mean += r / float64(len(ratios))
	}
	for _, r := range ratios {
		square += (r - mean) * (r - mean)
	}
	freedom := float64(len(ratios) - 1)
	quantile := 1.96 + 2.5/freedom + 3/(freedom*freedom) // Student's t for 95 %, within 1 % from 3 degrees of freedom on
	half := quantile * math.Sqrt(square/freedom/float64(len(ratios)))
	return fmt.Sprintf("%.3f (%.3f to %.3f)", mean, mean-half, mean+half)
}

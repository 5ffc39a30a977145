// SPDX-License-Identifier: MIT OR Apache-2.0

// Command go-wasmtime is a Go service with Rust inside: it compiles WebAssembly modules with wasmtime while onstack and
// runtime/pprof profile it at the same time, and shows what each of them saw.
//
// Build it and run the binary, as examples/demo.sh does: `go run` links without the symbol table, and native functions
// then have no names.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
	_ "github.com/onstack-profiler/onstack/bindings/go/onstackhttp" // readable names of Rust functions
)

func main() {
	directory := flag.String("out", filepath.Join("..", "..", "build", "demo"), "directory for the profiles")
	seconds := flag.Float64("seconds", 6, "how long to work")
	rate := flag.Int("hz", onstack.DefaultRate, "onstack's samples per second of CPU time")
	unwinder := flag.String("unwinder", "", "onstack's unwinder, by name; empty: its default")
	flag.Parse()
	options := []onstack.Option{onstack.WithRate(*rate)}
	if *unwinder != "" {
		options = append(options, onstack.WithUnwinder(*unwinder))
	}
	if err := run(os.Stdout, *directory, time.Duration(*seconds*float64(time.Second)), options); err != nil {
		fmt.Fprintln(os.Stderr, "go-wasmtime:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, directory string, duration time.Duration, options []onstack.Option) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	fmt.Fprintf(w, "compiling WebAssembly on two goroutines for %v, both profilers on\n", duration)
	both, err := profileBoth(w, duration, options)
	if err != nil {
		return err
	}
	for name, content := range both.files {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
			return err
		}
	}
	return both.report(w)
}

// profiles are the two views of the same seconds.
type profiles struct {
	files     map[string][]byte
	stats     onstack.Stats
	modules   []onstack.ModuleStats
	ours, gos *profile.Profile
	compiled  uint64
	spent     time.Duration // CPU time of the process
}

// cpuTime is the CPU time of the process so far.
func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}

func profileBoth(w io.Writer, duration time.Duration, options []onstack.Option) (*profiles, error) {
	var gos bytes.Buffer
	if err := pprof.StartCPUProfile(&gos); err != nil {
		return nil, err
	}
	defer pprof.StopCPUProfile()
	session, err := onstack.Start(options...)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	p := &profiles{}
	if err := p.work(w, duration); err != nil {
		return nil, err
	}
	if err := session.Stop(); err != nil {
		return nil, err
	}
	pprof.StopCPUProfile()
	fmt.Fprintln(w, "naming the functions")
	return p, p.collect(session, gos.Bytes())
}

// work keeps the service busy.
func (p *profiles) work(w io.Writer, duration time.Duration) error {
	before, err := cpuTime()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	if p.compiled, err = compileUntil(ctx, w, 2); err != nil {
		return err
	}
	after, err := cpuTime()
	p.spent = after - before
	return err
}

// collect writes our profile in both forms and parses both profilers' files.
func (p *profiles) collect(session *onstack.Profile, gos []byte) error {
	var ours, folded bytes.Buffer
	if _, err := session.WriteTo(&ours); err != nil {
		return err
	}
	if err := session.WriteFolded(&folded); err != nil {
		return err
	}
	p.stats, p.modules = session.Stats(), session.Modules()
	p.files = map[string][]byte{"onstack.pb.gz": ours.Bytes(), "go.pb.gz": gos, "onstack.folded": folded.Bytes()}
	var err error
	if p.ours, err = profile.ParseData(ours.Bytes()); err != nil {
		return err
	}
	p.gos, err = profile.ParseData(gos)
	return err
}

func (p *profiles) report(w io.Writer) error {
	ours, err := summarize(p.ours)
	if err != nil {
		return fmt.Errorf("onstack: %w", err)
	}
	gos, err := summarize(p.gos)
	if err != nil {
		return fmt.Errorf("runtime/pprof: %w", err)
	}
	printSideBySide(w, ours, gos, p.spent)
	s := p.stats
	fmt.Fprintf(w, "\n%d modules compiled. onstack: %d ticks in %d samples, %d threads, unwinder %s, %d foreign ticks handed "+
		"on\n", p.compiled, s.Ticks, s.Samples, s.ThreadsSeen, s.Unwinder, s.Forwarded)
	truncated := 0.0
	if s.Samples > 0 {
		truncated = 100 * float64(s.Truncated) / float64(s.Samples)
	}
	fmt.Fprintf(w, "stacks that end before their root: %.1f%%", truncated)
	for reason, n := range s.TruncatedBy {
		if n > 0 && onstack.Truncation(reason) != onstack.TruncatedNot {
			fmt.Fprintf(w, "  %v: %d", onstack.Truncation(reason), n)
		}
	}
	fmt.Fprintln(w)
	for _, module := range p.modules {
		if module.Lost*100 > s.Samples {
			fmt.Fprintf(w, "  %d of them in %v\n", module.Lost, module)
		}
	}
	fmt.Fprintf(w, "debug symbols of the C library: %s\n", libcSymbols(p.ours))
	return nil
}

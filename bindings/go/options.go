// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"fmt"
	"math"
	"strings"
	"syscall"

	"github.com/onstack-profiler/onstack/bindings/go/internal/optional"
)

// DefaultRate is the rate in Hz without WithRate. 99 rather than 100 keeps step with no other timer.
const DefaultRate = 99

// SetDemangler sets the function that returns the readable form of a C++ or Rust symbol, or the symbol itself, for all
// profiles of the process. It may be called from several goroutines at once. The packages onstackhttp, onstacktest and nativeheap set
// one if the program imports them. nil: profiles keep the symbols.
func SetDemangler(demangle func(symbol string) string) {
	if demangle == nil {
		optional.Demangle.Store(nil)
		return
	}
	optional.Demangle.Store(&demangle)
}

// An Option changes how a profile is taken.
type Option func(*config) error

// config is what the options say; zero means the core's default.
type config struct {
	rate        uint32
	maxDepth    uint32
	bufferBytes uint32
	maxStacks   uint32
	signal      int32
	unwinder    string
	clock       Clock
	interval    uint32 // of the heap
	threadNames uint8
	threadIDs   uint8

	goroutineLabels uint8
	interpreters    uint8
	timeline        bool
}

func newConfig(opts []Option) (*config, error) {
	c := &config{}
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("onstack: an option is nil: %w", ErrOptions)
		}
		if err := opt(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// positive narrows an option's number; zero is refused as it would silently mean the default.
func positive(option string, n int, field *uint32) error {
	if n <= 0 || int64(n) > math.MaxUint32 {
		return fmt.Errorf("onstack: %s(%d): give a number from 1 on: %w", option, n, ErrOptions)
	}
	*field = uint32(n)
	return nil
}

// WithRate sets the samples per second of CPU time on each thread, 1 to 10,000. The kernel ticks at most CONFIG_HZ
// (often 250) times a second; above that the samples weigh more instead. Errors: ErrFrequency.
func WithRate(hz int) Option {
	return func(c *config) error {
		if hz <= 0 || int64(hz) > math.MaxUint32 {
			return fmt.Errorf("onstack: WithRate(%d): %w", hz, ErrFrequency)
		}
		c.rate = uint32(hz)
		return nil
	}
}

// WithMaxDepth sets the frames that a sample keeps, 1 to 1,024 (default 128). Errors: ErrOptions.
func WithMaxDepth(frames int) Option {
	return func(c *config) error { return positive("WithMaxDepth", frames, &c.maxDepth) }
}

// WithBufferSize sets the bytes between the signal handler and the goroutine that empties the buffer each 20 ms, and each
// 200 where the program rests (default 1 MiB). Samples that find it full are counted in Stats.DroppedRingFull. Errors:
// ErrOptions.
func WithBufferSize(bytes int) Option {
	return func(c *config) error { return positive("WithBufferSize", bytes, &c.bufferBytes) }
}

// WithMaxStacks sets how many distinct stacks a profile keeps (default 1,048,576). Errors: ErrOptions.
func WithMaxStacks(stacks int) Option {
	return func(c *config) error { return positive("WithMaxStacks", stacks, &c.maxStacks) }
}

// WithUnwinder chooses the unwinder by name: "rules" (default), "frame_pointer" or "pc_only". Errors: ErrUnwinder.
func WithUnwinder(name string) Option {
	return func(c *config) error {
		if name == "" || strings.IndexByte(name, 0) >= 0 {
			return fmt.Errorf("onstack: WithUnwinder(%q): %w", name, ErrUnwinder)
		}
		c.unwinder = name
		return nil
	}
}

// WithTimeline keeps when each sample was taken, in some four bytes each, 64 MiB at most; of CPU and real time. WriteTo has it,
// for the commands onstack view and onstack convert; other readers pass it over. The profile's comment
// "onstack.timeline kept=N lost=N" says how many times found no room.
func WithTimeline() Option {
	return func(c *config) error {
		c.timeline = true
		return nil
	}
}

// Clock is who ticks.
type Clock uint8

const (
	ClockCPU Clock = 1 // CPU time of each thread (default)
	// Real time: threads that wait are sampled as well, Go's idle ones too, by looks from outside, 20 a second unless WithRate
	// says otherwise: nobody is interrupted. Samples have labels: state (running, runnable, blocked, uninterruptible, stopped),
	// wait (the system call), on (the lock, or what the descriptor is), holder (the thread that has the lock). Goroutines that
	// wait without a thread are not there: Go's block, mutex and goroutine profiles have those.
	ClockWall Clock = 2
	// Memory instead of time: where native code allocates, and what of it is in use. Package nativeheap makes malloc report;
	// without it there is nothing to sample. One such profile at a time. Samples have the labels of the goroutine that allocates;
	// Go's own heap profile has none. WithRate has no meaning.
	ClockHeap Clock = 3
	// Real time, by signals. Each tick ends system calls of native code that wait (poll, nanosleep) with EINTR, which that code
	// must be able to bear; Go's own does.
	ClockWallSignal Clock = 4
)

// WithClock sets the clock. Errors: ErrOptions; ErrClock at Start where nothing can tick.
func WithClock(clock Clock) Option {
	return func(c *config) error {
		if clock < ClockCPU || clock > ClockWallSignal {
			return fmt.Errorf("onstack: WithClock(%d): give ClockCPU, ClockWall, ClockWallSignal or ClockHeap: %w", clock, ErrOptions)
		}
		c.clock = clock
		return nil
	}
}

// WithHeapInterval sets the mean bytes from one sample of a profile with ClockHeap to the next (default 524,288; 1 counts
// each allocation). Errors: ErrOptions, also at Start with another clock.
func WithHeapInterval(bytes int) Option {
	return func(c *config) error { return positive("WithHeapInterval", bytes, &c.interval) }
}

// WithSignal names the signal to sample by. In a Go process that can only be SIGPROF, which the profiler shares with
// runtime/pprof: a late tick of any other signal can end the process. Errors: ErrSignal.
func WithSignal(signal syscall.Signal) Option {
	return func(c *config) error {
		if signal <= 0 || signal > 64 {
			return fmt.Errorf("onstack: WithSignal(%d): %w", int(signal), ErrSignal)
		}
		c.signal = int32(signal)
		return nil
	}
}

// WithThreadNames says whether samples carry the thread's name (label "thread", first frame of folded stacks);
// default true. Without it folded stacks of all threads are merged.
func WithThreadNames(on bool) Option {
	return func(c *config) error {
		c.threadNames = onOff(on)
		return nil
	}
}

// WithThreadIDs says whether samples carry the kernel's thread id (label "thread_id"), which also keeps threads of
// one name apart; default true.
func WithThreadIDs(on bool) Option {
	return func(c *config) error {
		c.threadIDs = onOff(on)
		return nil
	}
}

// WithGoroutineLabels says whether samples carry the labels that runtime/pprof.Do gave the goroutine; default true. A
// sample has room for 256 bytes of them. Stats.GoroutineLabels says whether it works with this version of Go.
func WithGoroutineLabels(on bool) Option {
	return func(c *config) error {
		c.goroutineLabels = onOff(on)
		return nil
	}
}

// WithInterpreters says whether samples have frames of interpreted languages in the process, of CPython and PHP (versions: the
// documentation's UNWINDING.md), in the place of the interpreter's own; default false.
func WithInterpreters(on bool) Option {
	return func(c *config) error {
		c.interpreters = onOff(on)
		return nil
	}
}

// onOff gives the core's three-valued switch, whose zero is the default.
func onOff(on bool) uint8 {
	if on {
		return 1
	}
	return 2
}

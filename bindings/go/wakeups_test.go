// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// A session that samples only work polls an idle program five times a second, with the default clock and with a named one. Each
// case has a process of its own, because a test that runs at the same time would be work. A busy machine makes polls fewer.
func TestIdleSessionsPollRarely(t *testing.T) {
	const idleEnv, most = "ONSTACK_TEST_IDLE_POLLS", 8
	for name, opts := range map[string][]Option{
		"default": nil,
		"cpu":     {WithClock(ClockCPU)},
		"heap":    {WithClock(ClockHeap)},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(idleEnv) == "" {
				t.Parallel() // the processes sleep
				command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
				command.Env = append(os.Environ(), idleEnv+"=1")
				if out, err := command.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				return
			}
			p, err := Start(opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			// The program is not idle at once: what it did last is collected, and the core reads its unwind tables.
			var polls int64
			for range 10 {
				before := p.session.polls.Load()
				time.Sleep(time.Second)
				if polls = p.session.polls.Load() - before; polls <= most {
					return
				}
			}
			t.Errorf("%d polls in the last of 10 seconds, %d are the most", polls, most)
		})
	}
}

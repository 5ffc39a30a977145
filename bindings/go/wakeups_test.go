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
	const idleEnv, seconds, most = "ONSTACK_TEST_IDLE_POLLS", 2, 8
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
			time.Sleep(time.Second / 2) // the pauses grow to their full length
			before := p.session.polls.Load()
			time.Sleep(seconds * time.Second)
			polls := p.session.polls.Load() - before
			t.Logf("%d polls in %d s", polls, seconds)
			if polls > most*seconds {
				t.Errorf("more than %d polls a second", most)
			}
		})
	}
}

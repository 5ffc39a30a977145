// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

// Command gohost is the Go executable of the matrix: takes a mix and steps (see ../host/driver.h), prints one JSON
// line with what it saw after each.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/onstack-profiler/onstack/tests/matrix/load"
	_ "github.com/onstack-profiler/onstack/tests/matrix/loadrust"
)

type event struct {
	Step   string `json:"step"`
	Result int64  `json:"result"`
	CPU0   int64  `json:"cpu0"`
	CPU1   int64  `json:"cpu1"`
	// Of the threads that live on and can have samples of Go's.
	Sampled int64     `json:"sampled"`
	T0      int64     `json:"t0"`
	T1      int64     `json:"t1"`
	Action  [4]string `json:"action"`
	OnTop   bool      `json:"on_top"`
	// Samples that the profile's count leaves out.
	External int64     `json:"external"`
	Ours     *counters `json:"ours,omitempty"`
}

type host struct {
	mix    string
	begin  time.Time
	ours   ours
	events []event
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: gohost MIX STEP...  (run.py calls it)")
		os.Exit(2)
	}
	h := &host{mix: os.Args[1], begin: time.Now()}
	var err error
	for _, step := range append([]string{"w:0"}, os.Args[2:]...) {
		if err = h.takeAndNote(step); err != nil {
			fmt.Fprintln(os.Stderr, step, err)
			break
		}
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"events": h.events})
	if err != nil {
		os.Exit(1)
	}
}

func (h *host) takeAndNote(step string) error {
	sampled := sampledCPU()
	e := event{Step: step, CPU0: cpuTime(), T0: int64(time.Since(h.begin))}
	result, err := h.take(step)
	e.Result, e.CPU1, e.T1 = result, cpuTime(), int64(time.Since(h.begin))
	e.Sampled = sampledCPU() - sampled
	raw := currentAction()
	e.Action, e.OnTop, e.Ours = raw.fields(), raw.isOurs(), h.ours.counters()
	e.External = load.External()
	if err != nil {
		e.Result = -1
	}
	h.events = append(h.events, e)
	return err
}

func (h *host) take(step string) (int64, error) {
	verb, argument, _ := strings.Cut(step, ":")
	number, _ := strconv.Atoi(argument)
	switch verb {
	case "G+":
		return 0, load.StartProfile()
	case "G-":
		return load.StopProfile()
	case "O+":
		return 0, h.ours.start()
	case "O-":
		return 0, h.ours.stop()
	case "L+":
		return 0, h.startLoad()
	case "L-":
		load.Stop()
		return 0, nil
	case "w":
		return 0, waitForCPU(time.Duration(number) * time.Millisecond)
	case "T":
		return waitUntilOnTop(), nil
	case "R":
		return 0, sendSignals(number)
	case "churn":
		return 0, h.ours.churn(number)
	case "race":
		return 0, h.race(number)
	case "H":
		return 0, load.Health()
	}
	return 0, fmt.Errorf("no such step")
}

func (h *host) startLoad() error {
	if err := load.Start(h.mix); err != nil || h.mix != "foreign" {
		return err
	}
	return load.StartForeign()
}

// race stops ours while Go's is stopping, a little later in each round.
func (h *host) race(rounds int) error {
	for i := range rounds {
		if err := h.ours.start(); err != nil {
			return err
		}
		if err := load.StartProfile(); err != nil {
			return err
		}
		if err := waitForCPU(60 * time.Millisecond); err != nil {
			return err
		}
		stopped := make(chan error)
		go func() {
			_, err := load.StopProfile()
			stopped <- err
		}()
		time.Sleep(time.Duration(i*7%20*100) * time.Microsecond)
		if err := errors.Join(h.ours.stop(), <-stopped); err != nil {
			return err
		}
	}
	return nil
}

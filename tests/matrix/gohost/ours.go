// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package main

import onstack "github.com/onstack-profiler/onstack/bindings/go"

// ours is our side: one profile at a time.
type ours struct {
	profile  *onstack.Profile
	last     counters
	sessions int
	used     bool
}

// counters carries the names that the C hosts use.
type counters struct {
	Running  int `json:"running"`
	Sessions int `json:"sessions"`

	Period          uint64 `json:"period"`
	Ticks           uint64 `json:"ticks"`
	Recorded        uint64 `json:"recorded"`
	Samples         uint64 `json:"samples"`
	Delivered       uint64 `json:"delivered"`
	Unattributed    uint64 `json:"unattributed"`
	DroppedRingFull uint64 `json:"dropped_ring_full"`
	DroppedNoStack  uint64 `json:"dropped_no_stack"`
	DroppedUnwinder uint64 `json:"dropped_unwinder"`
	DroppedStopping uint64 `json:"dropped_stopping"`
	DroppedSink     uint64 `json:"dropped_sink"`
	Forwarded       uint64 `json:"forwarded"`
	ForwardedTimer  uint64 `json:"forwarded_timer"`
	Swallowed       uint64 `json:"swallowed"`
	Late            uint64 `json:"late"`
}

const ourRate = 199

func (o *ours) start() (err error) {
	if o.profile, err = onstack.Start(onstack.WithRate(ourRate)); err != nil {
		return err
	}
	o.sessions, o.used = 1, true
	return nil
}

func (o *ours) stop() error {
	err := o.profile.Stop()
	o.last = countersOf(o.profile.Stats())
	o.profile.Close()
	o.profile = nil
	return err
}

func (o *ours) churn(times int) error {
	var sum counters
	for range times {
		if err := o.start(); err != nil {
			return err
		}
		if err := o.stop(); err != nil {
			return err
		}
		sum.add(&o.last)
	}
	o.last, o.sessions = sum, times
	return nil
}

func (o *ours) counters() *counters {
	if !o.used {
		return nil
	}
	c := o.last
	if o.profile != nil {
		c = countersOf(o.profile.Stats())
		c.Running = 1
	}
	c.Sessions = o.sessions
	return &c
}

func countersOf(s onstack.Stats) counters {
	return counters{
		Period: s.Period.Amount, Ticks: s.Ticks, Recorded: s.Recorded, Samples: s.Samples, Delivered: s.Delivered,
		Unattributed: s.Unattributed, DroppedRingFull: s.DroppedRingFull, DroppedNoStack: s.DroppedNoStack,
		DroppedUnwinder: s.DroppedUnwinder, DroppedStopping: s.DroppedStopping, DroppedSink: s.DroppedSink,
		Forwarded: s.Forwarded, ForwardedTimer: s.ForwardedTimer, Swallowed: s.Swallowed, Late: s.Late,
	}
}

func (c *counters) add(o *counters) {
	c.Period = o.Period
	c.Ticks += o.Ticks
	c.Recorded += o.Recorded
	c.Samples += o.Samples
	c.Delivered += o.Delivered
	c.Unattributed += o.Unattributed
	c.DroppedRingFull += o.DroppedRingFull
	c.DroppedNoStack += o.DroppedNoStack
	c.DroppedUnwinder += o.DroppedUnwinder
	c.DroppedStopping += o.DroppedStopping
	c.DroppedSink += o.DroppedSink
	c.Forwarded += o.Forwarded
	c.ForwardedTimer += o.ForwardedTimer
	c.Swallowed += o.Swallowed
	c.Late += o.Late
}

// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"net/http"
	"testing"
)

func TestPushMemoryIsBounded(t *testing.T) {
	server, away := newIngestAway(t, http.StatusBadGateway)
	const limit = 3
	p := push(t, server.URL, func(p *Pusher) { p.queue.limit = limit })
	eventually(t, "nothing is dropped", func() bool {
		s := p.Stats()
		if s.Waiting > limit+1 {
			t.Fatalf("%d wait, beyond the limit of %d and the one that is being sent", s.Waiting, limit)
		}
		return s.Dropped >= 20
	})
	p.queue.mu.Lock()
	if held := cap(p.queue.waiting); held > 4*limit {
		t.Errorf("room for %d profiles is held", held)
	}
	for _, item := range p.queue.waiting[len(p.queue.waiting):cap(p.queue.waiting)] {
		if item != nil {
			t.Error("a profile that has gone is kept alive")
		}
	}
	p.queue.mu.Unlock()
	away.Store(false)
	s := p.end()
	numbers := server.numbers()
	if uint64(len(numbers)) != s.Sent || s.Sent == 0 {
		t.Fatalf("%d came of %+v", len(numbers), s)
	}
	// The oldest went: what is there is in order and ends with the last.
	for i := 1; i < len(numbers); i++ {
		if numbers[i] <= numbers[i-1] {
			t.Errorf("not in order: %v", numbers)
		}
	}
	if last := numbers[len(numbers)-1]; last != p.source.taken.Load() || numbers[0] == 1 {
		t.Errorf("%v, the last was %d", numbers, p.source.taken.Load())
	}
	if p.count(PushDropped, "MaxWaiting is 3") == 0 {
		t.Error("nobody was told why")
	}
}

func TestPushBytesAreBounded(t *testing.T) {
	server, away := newIngestAway(t, http.StatusBadGateway)
	const limit, each = 300 << 10, 64 << 10
	p := push(t, server.URL, func(p *Pusher) {
		p.queue.bytes = limit
		p.start = func() (pushSource, error) { return &numbered{padding: each}, nil }
	})
	p.source.stopped.Store(true) // it is another
	eventually(t, "nothing is dropped", func() bool {
		p.queue.mu.Lock()
		defer p.queue.mu.Unlock()
		held := 0
		for _, item := range p.queue.waiting {
			held += cap(item.body)
		}
		if held > limit || held != p.queue.held {
			t.Fatalf("%d bytes wait, %d are counted, of %d", held, p.queue.held, limit)
		}
		return p.queue.stats.Dropped >= 10
	})
	away.Store(false)
	eventually(t, "nothing arrives after the outage", func() bool { return p.Stats().Sent >= 5 })
	p.end()
	if numbers := server.numbers(); numbers[0] < 5 {
		t.Errorf("not the oldest went: %v", numbers)
	}
	if p.count(PushDropped, "MaxWaitingBytes 307200: the oldest") == 0 {
		t.Error("nobody was told why")
	}
}

func TestPushProfileThatIsTooLarge(t *testing.T) {
	server := newIngest(t, nil)
	p := push(t, server.URL, func(p *Pusher) { p.queue.bytes = 100 })
	eventually(t, "not told", func() bool { return p.count(PushDropped, "MaxWaitingBytes is 100: raise that") > 2 })
	if s := p.end(); s.Sent != 0 || s.Dropped != s.Taken {
		t.Errorf("%+v", s)
	}
}

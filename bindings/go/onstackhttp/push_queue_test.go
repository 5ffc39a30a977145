// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"context"
	"testing"
)

func TestPushQueue(t *testing.T) {
	q := newPushQueue(2, 1)
	items := []*pushProfile{{}, {}, {}, {}}
	for i, item := range items[:3] {
		if dropped := q.add(item); dropped != i/2 {
			t.Errorf("profile %d: dropped %d", i, dropped)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	if got := q.take(ctx); got != items[1] {
		t.Error("not the oldest that is left")
	}
	if !q.putBack(items[1]) || q.take(ctx) != items[1] {
		t.Error("it did not go back to its place")
	}
	q.add(items[3])
	if q.putBack(items[1]) {
		t.Error("more than two wait")
	}
	if want := (PushStats{Taken: 4, Dropped: 2, Waiting: 2, Retries: 1}); q.numbers() != want {
		t.Errorf("%+v", q.numbers())
	}
	cancel()
	if q.take(ctx) != nil {
		t.Error("taken after the end")
	}
	q.close()
	if q.take(context.Background()) != items[2] || q.take(context.Background()) != items[3] || q.take(context.Background()) != nil {
		t.Error("a closed queue does not give what is left, and then nothing")
	}
}

// Profiles of any size, in any order: no more bytes wait than may, the oldest go first and no more of them than must, and
// each is counted.
func TestPushQueueOfBytes(t *testing.T) {
	const mib = 1 << 20
	q := newPushQueue(1000, 64*mib)
	var waiting []int // sizes, oldest first
	sum := func() (bytes int) {
		for _, size := range waiting {
			bytes += size
		}
		return bytes
	}
	large := make([]byte, 80*mib) // shared: only sizes count
	for i := range 500 {
		size := (i*i*37 + i) % (70 * mib) // some of them too large by themselves
		if i%3 == 0 {
			size %= mib
		}
		item, want := &pushProfile{body: large[: size/2 : size]}, 0
		if size > 64*mib {
			want = 1
		} else {
			for waiting = append(waiting, size); sum() > 64*mib; want++ {
				waiting = waiting[1:]
			}
		}
		if dropped := q.add(item); dropped != want {
			t.Fatalf("profile %d of %d bytes: %d dropped, want %d", i, size, dropped, want)
		}
		if i%5 == 0 && len(waiting) > 0 {
			first := q.take(context.Background())
			if first.held() != waiting[0] || !q.putBack(first) {
				t.Fatalf("the oldest, of %d bytes, has no room where it was", first.held())
			}
		}
		if len(q.waiting) != len(waiting) || q.held != sum() || q.numbers().Waiting != uint64(len(waiting)) {
			t.Fatalf("%d wait with %d bytes, want %v; %+v", len(q.waiting), q.held, waiting, q.numbers())
		}
	}
	if s := q.numbers(); s.Taken != 500 || s.Dropped+s.Waiting != 500 || s.Dropped < 100 {
		t.Errorf("%+v", s)
	}
}

func TestPushQueueOldestComesBackToAFullQueue(t *testing.T) {
	q := newPushQueue(1000, 100)
	q.add(&pushProfile{body: make([]byte, 60)})
	oldest := q.take(context.Background())
	q.add(&pushProfile{body: make([]byte, 50)})
	if q.putBack(oldest) {
		t.Error("110 bytes wait")
	}
	if want := (PushStats{Taken: 2, Dropped: 1, Waiting: 1}); q.numbers() != want || q.held != 50 {
		t.Errorf("%+v, %d bytes", q.numbers(), q.held)
	}
	for q.abandon() {
	}
	if q.held != 0 {
		t.Errorf("%d bytes of none", q.held)
	}
}

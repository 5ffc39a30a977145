// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"context"
	"testing"
)

func TestPushQueue(t *testing.T) {
	q := newPushQueue(2)
	items := []*pushProfile{{}, {}, {}, {}}
	for i, item := range items[:3] {
		if dropped := q.add(item); dropped != (i == 2) {
			t.Errorf("profile %d: dropped %v", i, dropped)
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

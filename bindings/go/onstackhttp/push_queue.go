// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"context"
	"slices"
	"sync"
)

// pushQueue holds the profiles that wait and keeps the accounting: a profile is always in exactly one of PushStats' numbers.
// One goroutine adds, one takes.
type pushQueue struct {
	limit   int           // of profiles
	bytes   int           // that they may hold
	changed chan struct{} // has room for one: something was added, or the queue was closed

	mu      sync.Mutex
	waiting []*pushProfile // oldest first
	held    int            // bytes of these
	closed  bool
	stats   PushStats
}

func newPushQueue(limit, bytes int) *pushQueue {
	return &pushQueue{limit: limit, bytes: bytes, changed: make(chan struct{}, 1)}
}

// add says how many of the oldest had to go. A profile that is too large by itself goes at once, for no others would make
// room for it.
func (q *pushQueue) add(item *pushProfile) (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.Taken++
	if item.held() > q.bytes {
		q.stats.Dropped++
		return 1
	}
	q.stats.Waiting++
	for ; !q.hasRoom(item); dropped++ {
		q.dropFirst()
	}
	q.waiting = append(q.waiting, item)
	q.held += item.held()
	q.wake()
	return dropped
}

// hasRoom needs mu.
func (q *pushQueue) hasRoom(item *pushProfile) bool {
	return len(q.waiting) < q.limit && item.held() <= q.bytes-q.held
}

// takeFirst needs mu.
func (q *pushQueue) takeFirst() *pushProfile {
	item := q.waiting[0]
	q.held -= item.held()
	q.waiting = slices.Delete(q.waiting, 0, 1) // clears the slot, or the array would keep the bytes alive
	return item
}

// dropFirst needs mu.
func (q *pushQueue) dropFirst() {
	q.takeFirst()
	q.stats.Waiting--
	q.stats.Dropped++
}

// close says that nothing more will be added.
func (q *pushQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake()
}

func (q *pushQueue) wake() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// take waits for the oldest profile, which goes on counting as waiting until sent, failed or putBack. It is nil when
// the queue is closed and empty, or ctx has ended.
func (q *pushQueue) take(ctx context.Context) *pushProfile {
	for {
		q.mu.Lock()
		if ctx.Err() == nil && len(q.waiting) > 0 {
			item := q.takeFirst()
			q.mu.Unlock()
			return item
		}
		closed := q.closed
		q.mu.Unlock()
		if closed || ctx.Err() != nil {
			return nil
		}
		select {
		case <-q.changed:
		case <-ctx.Done():
		}
	}
}

func (q *pushQueue) sent() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.Waiting--
	q.stats.Sent++
}

func (q *pushQueue) failed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.Waiting--
	q.stats.Failed++
}

// putBack says whether there was room. If not, the profile is the oldest, and is dropped.
func (q *pushQueue) putBack(item *pushProfile) (kept bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.hasRoom(item) {
		q.stats.Waiting--
		q.stats.Dropped++
		return false
	}
	q.waiting = slices.Insert(q.waiting, 0, item)
	q.held += item.held()
	q.stats.Retries++
	return true
}

// abandon drops the oldest, once nobody sends any more; false: none is left.
func (q *pushQueue) abandon() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return false
	}
	q.dropFirst()
	return true
}

func (q *pushQueue) nothing() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.Taken++
	q.stats.Empty++
}

func (q *pushQueue) failedToMake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.Taken++
	q.stats.Failed++
}

func (q *pushQueue) numbers() PushStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}

// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	leastBackoff = time.Second
	mostBackoff  = time.Minute
	// Pyroscope refuses what is older than an hour unless told otherwise: a longer Retry-After saves nothing.
	mostRetryAfter = time.Hour
	mostAnswer     = 4 << 10 // bytes of the server's words that are read
)

// attempt is how a request ended.
type attempt struct {
	err   error         // nil: the server has it
	again bool          // another attempt may help
	after time.Duration // and the server wants it no sooner
}

// send sends what is in the queue, one after the other and the oldest first, until the queue is closed and empty or
// `sending` ends. When `running` ends it waits no longer than the server asks.
func (p *Pusher) send(running, sending context.Context) {
	backoff, ending := backoff{least: p.least, most: p.most}, false
	for {
		item := p.queue.take(sending)
		if item == nil {
			return
		}
		tried := p.post(sending, item)
		switch {
		case tried.err == nil:
			p.queue.sent()
			backoff.reset()
		case !tried.again:
			p.queue.failed()
			p.tell(PushFailed, 0, tried.err)
			backoff.reset() // the server is there
		default:
			if running.Err() != nil && !ending {
				ending = true
				backoff.reset() // there is little time left
			}
			wait := backoff.next(tried.after)
			if p.queue.putBack(item) {
				p.tell(PushRetry, wait, tried.err)
			} else {
				p.tell(PushDropped, 0, tried.err)
			}
			if !p.rest(running, sending, wait, tried.after) {
				return
			}
		}
	}
}

// rest waits before another attempt and says whether one is still worth while.
func (p *Pusher) rest(running, sending context.Context, wait, after time.Duration) bool {
	if running.Err() == nil {
		allowed := time.Now().Add(after)
		if sleep(running, wait) {
			return true
		}
		wait = time.Until(allowed) // the end cuts the back-off short, not what the server asked for
	}
	return wait < p.flush && sleep(sending, wait)
}

// sleep says whether it was let to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (p *Pusher) post(ctx context.Context, item *pushProfile) attempt {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.target.address(p.target, item), bytes.NewReader(item.body))
	if err != nil {
		return attempt{err: p.pushError(err)}
	}
	request.Header = p.target.header.Clone()
	maps.Copy(request.Header, item.header)
	response, err := p.client.Do(request)
	if err != nil {
		return attempt{err: p.pushError(err), again: true}
	}
	defer response.Body.Close()
	// Read even if it is not wanted, so that the connection can be used again; its own errors change nothing.
	answer, _ := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	return p.check(response, answer)
}

// pushError leaves out the URL that net/http puts in front, where the query may be secret.
func (p *Pusher) pushError(err error) error {
	if inner := (*url.Error)(nil); errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("onstack: push to %s: %w", p.target, err)
}

func (p *Pusher) check(response *http.Response, answer []byte) attempt {
	status := response.StatusCode
	if status >= 200 && status < 300 {
		if refused := p.target.refused(response, answer); refused != "" {
			return attempt{err: p.pushError(errors.New(refused))}
		}
		return attempt{}
	}
	text, words := response.Status, strings.TrimSpace(p.target.words(response, answer))
	if words != "" {
		text += ": " + words
	}
	if status == http.StatusRequestEntityTooLarge {
		text += ": make profiles smaller, by a shorter Interval or onstack.WithMaxStacks"
	}
	if location, err := response.Location(); err == nil && status < 400 {
		text += fmt.Sprintf(": it redirects to %s, which is not followed: give that as PushOptions.URL", &pushTarget{url: *location})
	}
	return attempt{
		err:   p.pushError(errors.New(text)),
		again: p.target.again(status, words),
		after: retryAfter(response.Header.Get("Retry-After"), time.Now()),
	}
}

// retryAfter reads seconds or a date; 0 where there is neither.
func retryAfter(text string, now time.Time) time.Duration {
	after := time.Duration(0)
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(text); err == nil {
		after = date.Sub(now)
	}
	return min(max(after, 0), mostRetryAfter)
}

// backoff is the wait between attempts: twice as long each time, and half of it at random, so that services that lost
// their server together do not come back together.
type backoff struct{ least, most, last time.Duration }

func (b *backoff) next(after time.Duration) time.Duration {
	b.last = min(max(2*b.last, b.least), b.most)
	wait := b.last/2 + rand.N(b.last/2+1)
	if after > 0 {
		wait = max(wait, after+rand.N(b.least))
	}
	return wait
}

func (b *backoff) reset() { b.last = 0 }

// newPushClient also gives the transport if it is ours to close.
func newPushClient(o *PushOptions) (*http.Client, *http.Transport) {
	client, ours := &http.Client{}, (*http.Transport)(nil)
	if o.Client != nil {
		*client = *o.Client
	} else {
		// Not net/http's own, whose idle connections would outlive us.
		if common, ok := http.DefaultTransport.(*http.Transport); ok {
			ours = common.Clone()
		} else {
			ours = &http.Transport{Proxy: http.ProxyFromEnvironment}
		}
		client.Transport = ours
	}
	client.Timeout = o.Timeout
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client, ours
}

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

// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

// Push profiles the process without a pause and sends a profile each Interval to a Pyroscope server, to another with its
// ingest endpoint, or to an OpenTelemetry collector (PushOTLP), for services that cannot be scraped. It returns when ctx ends, with context.Cause(ctx), or at once
// when it cannot begin:
//
//	go func() {
//		log.Print(onstackhttp.Push(ctx, onstackhttp.PushOptions{URL: "http://pyroscope:4040", Service: "shop"}))
//	}()
//
// Each tick is in exactly one profile. While the server is away profiles wait, MaxWaiting of them and no more than
// MaxWaitingBytes; then the oldest go. Connection errors, 429 and 5xx are tried again, later each time and no sooner than
// Retry-After says; what else is refused counts as failed. A request whose answer is lost is repeated, so that a server
// may get a profile twice. Nothing is lost silently: see PushOptions.Report, and Pusher.Stats for the numbers.
//
// The profile is a session like others: it disturbs no Handler, no runtime/pprof and no second Push. When ctx ends the
// profile so far is sent too, as far as FlushTimeout lets it; then no goroutine, timer or signal of it is left.
//
// Errors: onstack.ErrOptions with the name of the option, and those of onstack.Start.
func Push(ctx context.Context, options PushOptions) error {
	p, err := NewPusher(options)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// Pusher is a Push whose numbers can be read. Its methods may be called from any goroutine.
type Pusher struct {
	target   *pushTarget
	queue    *pushQueue
	client   *http.Client
	ours     *http.Transport // to be closed; nil where the client is the caller's
	interval time.Duration
	flush    time.Duration
	least    time.Duration // of the back-off
	most     time.Duration
	report   func(PushEvent)
	reportMu sync.Mutex // one report at a time: the profile's goroutine and the sender's both do
	start    func() (pushSource, error)
	begun    atomic.Bool
}

// pushSource is what a Pusher needs of an onstack.Profile.
type pushSource interface {
	TakeTo(io.Writer) (int64, error)
	Stop() error
	Close() error
}

// NewPusher says what is wrong with the options; it starts nothing. Errors: onstack.ErrOptions.
func NewPusher(options PushOptions) (*Pusher, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	target, err := newPushTarget(&options)
	if err != nil {
		return nil, err
	}
	p := &Pusher{
		target:   target,
		queue:    newPushQueue(options.MaxWaiting, options.MaxWaitingBytes),
		interval: options.Interval,
		flush:    options.FlushTimeout,
		least:    leastBackoff,
		most:     mostBackoff,
		report:   options.Report,
	}
	p.client, p.ours = newPushClient(&options)
	// Ids of threads are numbers, which Pyroscope drops: without them the profiles are smaller.
	profileOptions := append([]onstack.Option{onstack.WithThreadIDs(false)}, options.Profile...)
	p.start = func() (pushSource, error) { return onstack.Start(profileOptions...) }
	return p, nil
}

// Stats returns the numbers so far.
func (p *Pusher) Stats() PushStats { return p.queue.numbers() }

// Run does what Push says, once.
func (p *Pusher) Run(ctx context.Context) error {
	if !p.begun.CompareAndSwap(false, true) {
		return errors.New("onstack: a Pusher runs once: make another by NewPusher")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	source, err := p.start()
	if err != nil {
		return err
	}
	defer source.Close()
	// The request that is under way when ctx ends may still finish.
	sending, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		p.send(ctx, sending)
	}()
	p.collect(ctx, source)
	p.queue.close()
	timer := time.AfterFunc(p.flush, giveUp)
	defer timer.Stop()
	<-sent
	for p.queue.abandon() {
		p.tell(PushDropped, 0, fmt.Errorf("onstack: push: the end came before the server at %s took the profile", p.target))
	}
	if p.ours != nil {
		p.ours.CloseIdleConnections()
	}
	return context.Cause(ctx)
}

// collect puts a profile in the queue each interval, and the last when ctx ends.
func (p *Pusher) collect(ctx context.Context, source pushSource) {
	// A part of the first interval only: services that were started together shall not all send together.
	timer := time.NewTimer(p.interval/2 + rand.N(p.interval/2+1))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			timer.Reset(p.interval)
			p.take(source)
		case <-ctx.Done():
			if err := source.Stop(); err != nil {
				p.lose(err)
				return
			}
			p.take(source)
			return
		}
	}
}

func (p *Pusher) take(source pushSource) {
	item, err := p.target.take(p.target, source)
	if err != nil {
		p.lose(err)
		return
	}
	if item == nil {
		p.queue.nothing()
		return
	}
	p.put(item)
}

// put tells of each profile that has to go.
func (p *Pusher) put(item *pushProfile) {
	err := fmt.Errorf("onstack: push: the server at %s is too slow or away, MaxWaiting is %d and MaxWaitingBytes %d: the oldest "+
		"profile goes", p.target, p.queue.limit, p.queue.bytes)
	if item.held() > p.queue.bytes {
		err = fmt.Errorf("onstack: push: a profile of %d bytes goes, as MaxWaitingBytes is %d: raise that, or make profiles smaller "+
			"by a shorter Interval or onstack.WithMaxStacks", item.held(), p.queue.bytes)
	}
	for range p.queue.add(item) {
		p.tell(PushDropped, 0, err)
	}
}

// lose counts a profile that could not be made.
func (p *Pusher) lose(err error) {
	p.queue.failedToMake()
	p.tell(PushFailed, 0, fmt.Errorf("onstack: push: a profile cannot be made: %w", err))
}

func (p *Pusher) tell(outcome PushOutcome, retry time.Duration, err error) {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	p.report(PushEvent{Outcome: outcome, Err: err, Retry: retry, Stats: p.Stats()})
}

package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Bounds of the stream.
const (
	streamWrites  = 200
	streamPause   = 50 * time.Millisecond // between two writes
	streamBetween = 25 * time.Millisecond // between two packets of one sender
	streamSenders = 3                     // of each kind
)

// tally counts what a stream of packets saw.
type tally struct {
	mu sync.Mutex // guards following
	// Packets that should not pass and those that did; connections that should be made and
	// those that were not; questions on open connections and those without an answer.
	shut, leaks, tries, lost, asked, cut int
	why                                  string // the first thing that went wrong, or nobody knows about
}

// count adds to two of the counters.
func (t *tally) count(all, wrong *int, is bool, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*all++
	if is {
		*wrong++
		t.why = or(t.why, why)
	}
}

// unclear notes a packet of which nobody knows what became.
func (t *tally) unclear(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.why = or(t.why, err.Error())
}

// stream sends packets of all kinds while the endpoint gets the same rules again and again,
// spelled otherwise.
func (p *packets) stream() {
	if !p.begin("packets: a stream through 200 Updates") {
		return
	}
	first, second := p.sameTwice()
	flows := []flow{from("b", tcpNumber, portA, Passed), from("b", udpNumber, portB, Dropped)}
	if q, ok := p.ask(first, flows, false); !ok || q.RightMicros < 0 {
		if ok {
			p.unclear("it does not begin: " + wrongOf(q.Packets))
		}
		return
	}
	ctx, end := context.WithCancel(p.ctx)
	var t tally
	var senders sync.WaitGroup
	for range streamSenders {
		senders.Go(func() { p.sendShut(ctx, &t) })
		senders.Go(func() { p.sendOpen(ctx, &t) })
		senders.Go(func() { p.converse(ctx, &t) })
	}
	written := p.writes(first, second)
	end()
	senders.Wait()
	p.judgeStream(&t, written)
}

// sameTwice are two lists of rules of one meaning: in another order, with other numbers.
func (p *packets) sameTwice() (first, second []string) {
	web, dns := port("In", tcpNumber, "8080"), port("In", udpNumber, "8082")
	return []string{p.style.open("In", plenty, web), p.style.open("In", plenty, dns)},
		[]string{p.style.open("In", plenty+1, dns), p.style.open("In", plenty+1, web)}
}

// writes makes the Updates, and returns how many and the first that was refused.
func (p *packets) writes(first, second []string) (done int) {
	p.with("Updates of one meaning", endpoint, ownPod, func(h uint64) *Record {
		var r *Record
		for i := range streamWrites {
			rules := first
			if i%2 == 0 {
				rules = second
			}
			_, r = p.call("", "HcnModifyEndpoint", Arguments{Handle: h, ID: ownPod, Texts: []string{p.style.list(rules, false).request()}})
			if !r.ok() || p.stopped() {
				break
			}
			done++
			p.pause(streamPause)
		}
		return r
	})
	return done
}

// every does something with a pause after each time, until ctx ends.
func every(ctx context.Context, d time.Duration, do func()) {
	for ctx.Err() == nil {
		do()
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (p *packets) flowOf(f flow) Flow {
	return Flow{p.places[f.from], p.places[f.to], f.protocol, f.port}
}

// sendShut sends what no rule allows. UDP is sent again and again while nothing comes back.
func (p *packets) sendShut(ctx context.Context, t *tally) {
	f := p.flowOf(from("b", udpNumber, portB, Dropped))
	every(ctx, streamBetween, func() {
		is, err := p.wire.Send(ctx, f)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			t.unclear(err)
		default:
			t.count(&t.shut, &t.leaks, is == Passed, "a packet passed that no rule allows")
		}
	})
}

// sendOpen makes new connections that a rule allows.
func (p *packets) sendOpen(ctx context.Context, t *tally) {
	f := p.flowOf(from("b", tcpNumber, portA, Passed))
	every(ctx, streamBetween, func() {
		is, err := p.wire.Send(ctx, f)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			t.unclear(err)
		default:
			t.count(&t.tries, &t.lost, is != Passed, "a connection that a rule allows: "+string(is))
		}
	})
}

// converse keeps a connection open, and makes another one when it is cut.
func (p *packets) converse(ctx context.Context, t *tally) {
	f := p.flowOf(from("b", tcpNumber, portA, Passed))
	var open Conversation
	defer func() {
		if open != nil {
			_ = open.Close() // the stream is over
		}
	}()
	every(ctx, streamBetween, func() {
		if open == nil {
			var err error
			if open, _, err = p.wire.Open(ctx, f); err != nil && ctx.Err() == nil {
				t.unclear(err)
			}
			return
		}
		is, err := open.Ask(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.unclear(err)
		default:
			t.count(&t.asked, &t.cut, is != Passed, "an open connection: "+string(is))
		}
		if is != Passed {
			_ = open.Close() // it is cut
			open = nil
		}
	})
}

// judgeStream says what the counts mean.
func (p *packets) judgeStream(t *tally, written int) {
	if p.stopped() {
		return
	}
	why := fmt.Sprintf("%d Updates: %d of %d packets passed that should not, %d of %d new connections were not made, %d of %d times an open one was cut",
		written, t.leaks, t.shut, t.lost, t.tries, t.cut, t.asked)
	if t.why != "" {
		why += "; first " + t.why
	}
	switch {
	case written < streamWrites || t.shut == 0 || t.tries == 0:
		p.find("A19", Unknown, why)
	default:
		p.holds("A19", t.leaks+t.lost == 0, why)
	}
	switch {
	case written < streamWrites || t.asked == 0:
		p.find("A21", Unknown, why)
	default:
		p.holds("A21", t.cut == 0, why)
	}
}

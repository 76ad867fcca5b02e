package dataplane

import (
	"strings"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/printable"
	"github.com/winnpm/winnpm/pkg/state"
)

// slowPiece is how long a piece of work takes that a report tells of.
const slowPiece = time.Second

// progress is where the running transaction is. Only that transaction writes it. Readers wait
// for no work, so they get an answer while the state is locked.
type progress struct {
	now     func() time.Time
	mu      sync.Mutex // guards at and since; held for no call and no work; the writer reads without it
	at      place      // zero: no transaction runs
	since   time.Time
	longest state.Piece // of the transaction that runs, of those that are slow
}

// place is what a transaction works on.
type place struct {
	work            string // staging, rendering ...
	kind            string // of the object, "" for none
	namespace, name string
	call            string // of HNS, "" for none
}

// String puts it in words.
func (p place) String() string {
	var b strings.Builder
	b.WriteString(p.work)
	if p.kind != "" {
		b.WriteString(" " + p.kind + " ")
		if p.namespace != "" {
			b.WriteString(p.namespace + "/")
		}
		b.WriteString(p.name)
	}
	if p.call != "" {
		b.WriteString(", in HNS: " + p.call)
	}
	return printable.Line(b.String())
}

// Begin notes that a transaction begins.
func (p *progress) Begin() {
	p.goOn(place{work: "beginning"})
	p.longest = state.Piece{}
}

// End notes that it has ended, and returns the longest piece of its work if that was slow.
func (p *progress) End() *state.Piece {
	p.goOn(place{})
	if p.longest.Took == 0 {
		return nil
	}
	longest := p.longest
	return &longest
}

// Note notes that the transaction gets on with an object, or with work on none.
func (p *progress) Note(work, kind, namespace, name string) {
	p.goOn(place{work: work, kind: kind, namespace: namespace, name: name})
}

// Call notes that HNS is asked; the function that it returns, that HNS answered.
func (p *progress) Call(op string) (returned func()) {
	at := p.at
	in := at
	in.call = op
	p.goOn(in)
	return func() { p.goOn(at) }
}

// goOn ends a piece of work and begins the next one.
func (p *progress) goOn(next place) {
	now := p.now()
	if took := now.Sub(p.since); p.at != (place{}) && p.at.call == "" && took >= max(slowPiece, p.longest.Took+1) {
		p.longest = state.Piece{Doing: p.at.String(), Took: took}
	}
	p.mu.Lock()
	p.at, p.since = next, now
	p.mu.Unlock()
}

// Now returns where the transaction is. It waits for nothing.
func (p *progress) Now() state.Progress {
	p.mu.Lock()
	at, since := p.at, p.since
	p.mu.Unlock()
	if at == (place{}) {
		return state.Progress{}
	}
	return state.Progress{Doing: at.String(), Since: since, InHNS: at.call != ""}
}

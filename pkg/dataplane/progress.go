package dataplane

import (
	"strings"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/state"
)

// slowPiece is how long a piece of work must take for a report to name it.
const slowPiece = time.Second

// progress says what the running transaction works on. Only that transaction writes it. A reader
// never waits for the work, so it gets an answer while the state is locked.
type progress struct {
	now     func() time.Time
	mu      sync.Mutex // guards at and since; not held during a call or other work; the writer reads without it
	at      place      // zero: no transaction runs
	since   time.Time
	longest *state.Piece // the longest slow piece of the running or last transaction, nil for none
}

// place is what a transaction works on.
type place struct {
	work            string // staging, rendering ...
	kind            string // of the object, "" for none
	namespace, name string
	call            string // of HNS, "" for none
}

// String describes the place for dumps and reports.
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
	return cli.Printable(b.String())
}

// Note records what the transaction does next, and with which object; kind is "" if with none.
func (p *progress) Note(work, kind, namespace, name string) {
	p.move(place{work: work, kind: kind, namespace: namespace, name: name})
}

// move ends a piece of work and begins the next one. The zero place ends the transaction.
func (p *progress) move(next place) {
	now := p.now()
	took := now.Sub(p.since)
	switch {
	case p.at == (place{}):
		p.longest = nil
	case p.at.call == "" && took >= slowPiece && (p.longest == nil || took > p.longest.Took):
		p.longest = &state.Piece{Doing: p.at.String(), Took: took}
	}
	p.mu.Lock()
	p.at, p.since = next, now
	p.mu.Unlock()
}

// Now returns what the transaction works on. It never waits for the transaction.
func (p *progress) Now() state.Progress {
	p.mu.Lock()
	at, since := p.at, p.since
	p.mu.Unlock()
	if at == (place{}) {
		return state.Progress{}
	}
	return state.Progress{Doing: at.String(), Since: since, InHNS: at.call != ""}
}

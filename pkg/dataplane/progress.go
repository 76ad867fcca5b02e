package dataplane

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/winnpm/winnpm/pkg/printable"
)

// Progress is where a transaction is. A zero one says that none runs.
type Progress struct {
	// Doing says in a few words on what it is, printable in one line.
	Doing string `json:"doing"`
	// Since is when it last got on: a piece of work, or a call of HNS, began or ended.
	Since time.Time `json:"since"`
	// InHNS: a call of HNS has not returned. How long it may take is the client's to
	// say.
	InHNS bool `json:"inHNS,omitempty"`
}

// Piece is work between two moments at which a transaction got on.
type Piece struct {
	Doing string        `json:"doing"`
	Took  time.Duration `json:"took"` // nanoseconds
}

// slowPiece is how long a piece takes that a report tells of.
const slowPiece = time.Second

// progress keeps where the running transaction is. That transaction's goroutine alone
// writes it; whoever asks needs no lock, so the answer comes while one is held.
type progress struct {
	now  func() time.Time
	born time.Time

	at    atomic.Pointer[place] // nil: no transaction runs
	since atomic.Int64          // nanoseconds since born

	longest Piece // of the transaction that runs, of those that are slow
}

// place is what a transaction works on. It never changes.
type place struct {
	work      string // staging, rendering ...
	kind      string // of the object, "" for none
	namespace string
	name      string
	call      string // of HNS, "" for none
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

// The kinds of objects that are worked on, as Progress and warnings call them.
const (
	kindPolicy    = "NetworkPolicy"
	kindPod       = "Pod"
	kindNamespace = "Namespace"
	kindEndpoint  = "endpoint"
)

func newProgress(now func() time.Time) *progress { return &progress{now: now, born: now()} }

// begin notes that a transaction begins.
func (p *progress) begin() {
	p.longest = Piece{}
	p.since.Store(int64(p.now().Sub(p.born)))
	p.at.Store(&place{work: "beginning"})
}

// end notes that it has ended, and returns the longest of its pieces if that was slow.
func (p *progress) end() *Piece {
	p.piece()
	p.at.Store(nil)
	if p.longest.Took == 0 {
		return nil
	}
	longest := p.longest
	return &longest
}

// note notes that the transaction gets on with an object, or with work on none.
func (p *progress) note(work, kind, namespace, name string) {
	p.piece()
	p.at.Store(&place{work: work, kind: kind, namespace: namespace, name: name})
}

// piece notes that the transaction gets on with the same.
func (p *progress) piece() {
	now := p.now().Sub(p.born)
	at, was := p.at.Load(), time.Duration(p.since.Load())
	if took := now - was; at != nil && at.call == "" && took >= slowPiece && took > p.longest.Took {
		p.longest = Piece{at.String(), took}
	}
	p.since.Store(int64(now))
}

// within is note for work in the midst of other work; the function that it returns goes
// back to that.
func (p *progress) within(work, kind, namespace, name string) (back func()) {
	return p.into(place{work: work, kind: kind, namespace: namespace, name: name})
}

// calls notes that HNS is asked; the function that it returns, that it answered.
func (p *progress) calls(op string) (returned func()) {
	in := place{call: op}
	if at := p.at.Load(); at != nil {
		in = *at
		in.call = op
	}
	return p.into(in)
}

func (p *progress) into(next place) (back func()) {
	at := p.at.Load()
	p.piece()
	p.at.Store(&next)
	return func() {
		p.piece()
		p.at.Store(at)
	}
}

// Progress returns where the transaction is that runs. It waits for nothing, also
// while the state is locked.
func (d *Dataplane) Progress() Progress {
	at := d.progress.at.Load()
	if at == nil {
		return Progress{}
	}
	return Progress{Doing: at.String(), Since: d.progress.born.Add(time.Duration(d.progress.since.Load())), InHNS: at.call != ""}
}

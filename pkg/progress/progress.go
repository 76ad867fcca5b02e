package progress

import (
	"strings"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/state"
)

// slowPiece is how long a piece takes that a report tells of.
const slowPiece = time.Second

// Notes keeps where the running transaction is. Only the transaction that runs
// writes it; whoever asks waits for no work, so the answer comes while the state is
// locked. A note allocates nothing, as each pod brings several.
type Notes struct {
	now  func() time.Time
	born time.Time

	mu    sync.Mutex // held for no call and no work; the writer reads without it
	at    place      // zero: no transaction runs
	since time.Duration

	longest state.Piece // of the transaction that runs, of those that are slow
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
	return cli.Printable(b.String())
}

// The kinds of objects that are worked on, as Progress and warnings call them.
const (
	NetworkPolicy        = "NetworkPolicy"
	ClusterNetworkPolicy = "ClusterNetworkPolicy"
	Pod                  = "Pod"
	Namespace            = "Namespace"
	Endpoint             = "endpoint"
)

// New returns notes of no transaction. now reads the clock.
func New(now func() time.Time) *Notes { return &Notes{now: now, born: now()} }

// Begin notes that a transaction begins.
func (p *Notes) Begin() {
	p.goOn(place{work: "beginning"})
	p.longest = state.Piece{}
}

// End notes that it has ended, and returns the longest of its pieces if that was slow.
func (p *Notes) End() *state.Piece {
	p.goOn(place{})
	if p.longest.Took == 0 {
		return nil
	}
	longest := p.longest
	return &longest
}

// Now returns where the transaction is. It waits for nothing.
func (p *Notes) Now() state.Progress {
	p.mu.Lock()
	at, since := p.at, p.since
	p.mu.Unlock()
	if at == (place{}) {
		return state.Progress{}
	}
	return state.Progress{Doing: at.String(), Since: p.born.Add(since), InHNS: at.call != ""}
}

// Note notes that the transaction gets on with an object, or with work on none.
func (p *Notes) Note(work, kind, namespace, name string) {
	p.goOn(place{work: work, kind: kind, namespace: namespace, name: name})
}

// Piece notes that the transaction gets on with the same.
func (p *Notes) Piece() { p.goOn(p.at) }

// goOn notes that a piece has ended, and at what the next one is.
func (p *Notes) goOn(next place) {
	now := p.now().Sub(p.born)
	at := p.at
	took := now - p.since
	p.mu.Lock()
	p.at, p.since = next, now
	p.mu.Unlock()
	if at != (place{}) && at.call == "" && took >= slowPiece && took > p.longest.Took {
		p.longest = state.Piece{Doing: at.String(), Took: took}
	}
}

// Within is Note for work in the midst of other work; the function that it returns goes
// back to that.
func (p *Notes) Within(work, kind, namespace, name string) (back func()) {
	return p.into(place{work: work, kind: kind, namespace: namespace, name: name})
}

// Call notes that HNS is asked; the function that it returns, that it answered.
func (p *Notes) Call(op string) (returned func()) {
	in := p.at
	in.call = op
	return p.into(in)
}

func (p *Notes) into(next place) (back func()) {
	at := p.at
	p.goOn(next)
	return func() { p.goOn(at) }
}

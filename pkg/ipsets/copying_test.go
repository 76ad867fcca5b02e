package ipsets

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/pieces"
)

// taking is a copy that is being made, and what it has to be.
type taking struct {
	p          *Copying
	next       func() (int, bool)
	stop       func()
	states     []SetState
	different  map[string]Difference
	programmed []Programmed
}

func byID(all []Programmed) []Programmed {
	slices.SortFunc(all, func(a, b Programmed) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// take begins a copy in pieces of a size. Each call of next copies one.
func (c *Cache) take(size int) *taking {
	tk := &taking{states: c.Snapshot(), different: c.copied().Differences(), programmed: byID(programmed(c))}
	tk.p = c.Begin()
	tk.next, tk.stop = iter.Pull(func(yield func(int) bool) {
		n := 0
		pace := pieces.Pace{Size: size, Pause: func(work func()) {
			work()
			n++
			yield(n)
		}}
		tk.p.Heads(pace)
		tk.p.Content(pace)
		tk.p.End()
	})
	return tk
}

// check goes on to the end, and holds the copy against the state when it began.
func (tk *taking) check(t require.TestingT) {
	for _, more := tk.next(); more; _, more = tk.next() {
	}
	tk.stop()
	require.Empty(t, gocmp.Diff(tk.states, tk.p.Copy().States()))
	require.Empty(t, gocmp.Diff(tk.different, tk.p.Copy().Differences()))
	require.Empty(t, gocmp.Diff(tk.programmed, byID(tk.p.Programmed())))
}

// begin begins a copy, of which there are two at most, and goOn copies a piece
// of one, or ends it.
func (tr *trial) begin(t *rapid.T) {
	if len(tr.takings) == 2 {
		t.Skip("enough")
	}
	tr.takings = append(tr.takings, tr.c.take(rapid.IntRange(1, 4).Draw(t, "piece")))
}

func (tr *trial) goOn(t *rapid.T) {
	if len(tr.takings) == 0 {
		t.Skip("none")
	}
	i := rapid.IntRange(0, len(tr.takings)-1).Draw(t, "copy")
	if _, more := tr.takings[i].next(); !more {
		tr.takings[i].check(t)
		tr.takings = slices.Delete(tr.takings, i, i+1)
	}
}

// Nobody waits for more than a piece, whatever there is to be copied.
func TestPiecesAreBounded(t *testing.T) {
	c := NewCache()
	for _, n := range []Name{leafA, leafB} {
		c.Hold(n, Ref{RefRule, "ep"})
	}
	nested := NestedLabel("app", "a", "b")
	c.Hold(nested, Ref{RefRule, "ep"})
	c.AddMember(nested, leafA)
	for i := range 1000 {
		c.AddAddr(leafA, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
		c.Hold(leafB, Ref{RefSelector, string(rune(i + 1))})
		c.Hold(Namespace(string(rune('a'+i))), Ref{RefSelector, "p"})
	}
	tk := c.take(10)
	pauses := 0
	for n, more := tk.next(); more; n, more = tk.next() {
		pauses = n
		// What changes costs no piece.
		c.AddAddr(leafB, netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)}))
		if n < 400 {
			c.Release(leafB, Ref{RefSelector, string(rune(n))})
		}
	}
	// 1000 addresses, 600 references that stay, 1000 more sets with one each.
	require.Greater(t, pauses, 4500/10)
	tk.check(t)
}

// What happens seldom is noted too, whenever it happens.
func TestCopyMeanwhile(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	kept := []Observed{
		{ID: leafB.ID(), Name: "odd", Nested: true}, {ID: Namespace("x").ID(), Name: "ns-x", Values: []string{"10.0.0.2"}},
	}
	for name, change := range map[string]func(*Cache){
		"another id":   func(c *Cache) { c.Observe(append(slices.Clone(kept), oldOf(leafA, "10.0.0.1")), nil) },
		"another name": func(c *Cache) { c.Hold(leafB, rule) },
		"in use":       func(c *Cache) { c.Used(Namespace("x")) },
		"recalled": func(c *Cache) {
			c.Recall(Namespace("x"), at(9), time.Time{})
			c.Recall(leafA, time.Time{}, at(9))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for more, pauses := true, 1; more; pauses++ {
				c := NewCache()
				c.Advance(at(1))
				c.Observe(kept, nil)
				c.Hold(leafA, rule)
				c.AddAddr(leafA, addr1)
				c.Advance(at(5))
				tk := c.take(1)
				for range pauses {
					_, more = tk.next()
				}
				before := c.Snapshot()
				change(c)
				require.NotEmpty(t, gocmp.Diff([]any{before, tk.different}, []any{c.Snapshot(), c.copied().Differences()}))
				tk.check(t)
			}
		})
	}
}

// A member that is left out, of content that was refused with it, comes once.
func TestCopyOfWhatIsLeftOut(t *testing.T) {
	for more, pauses := true, 1; more; pauses++ {
		c := NewCache()
		nested := NestedLabel("app", "a", "b")
		for _, n := range []Name{leafA, leafB, nested} {
			c.Hold(n, rule)
		}
		c.AddMember(nested, leafA)
		c.AddMember(nested, leafB)
		c.AddAddr(leafA, addr1)
		c.Reject(nested)
		c.Reject(leafA)
		tk := c.take(1)
		for range pauses {
			_, more = tk.next()
		}
		c.Reject(nested) // without leafA
		tk.check(t)
	}
}

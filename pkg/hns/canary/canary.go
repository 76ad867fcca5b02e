// Package canary tries a set of its own on HNS right before a process first writes sets: it
// adds the set, reads it, compares it with what was sent, and removes it. What HNS does
// otherwise is told; the write is made all the same.
//
// It is a Client between the dataplane and HNS, so it writes under the same apply lock, and
// only where something else is written: a process that writes no set tries nothing. Rules never
// wait for it. A block is what closes a pod, and between the read of an endpoint and its Update
// nothing may come (I7).
package canary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// ID of the set. It has not the prefix of our sets, so nobody adopts it, feeds it or takes it
// for an orphan. No rule ever names it.
const ID = "winnpm-canary"

// limit bounds how long the first write of sets waits for the canary. A call that hangs may hold it longer, as
// it would without: the adapter makes one call at a time.
const limit = 3 * time.Second

// errLimit is why a canary did not come to its end.
var errLimit = fmt.Errorf("HNS took longer than %v", limit)

// set is what is tried: documentation addresses (RFC 5737), which no pod has.
func set() hns.SetPolicy {
	return hns.SetPolicy{ID: ID, Name: ID, Type: hns.IPSet, Values: []string{"192.0.2.1", "192.0.2.128/25"}}
}

// Is reports whether a set is the canary, which a process that was killed may have left.
func Is(s hns.SetPolicy) bool { return strings.EqualFold(s.ID, ID) }

// Result is what came of it.
type Result struct {
	// Otherwise is what HNS did otherwise than WinNPM assumes; empty: nothing.
	Otherwise []string
	// Unknown is why it did not come to its end; nil: it did.
	Unknown error
	// Left: the set may still be there. The next process that writes removes it.
	Left bool
	Took time.Duration
}

// Client is an hns.Client that tries the canary before the first write of sets.
type Client struct {
	hns.Client
	now  func() time.Time
	tell func(Result)

	trying sync.Mutex // held while the canary is tried: writes wait for it
	tried  bool       // guarded by trying
}

// New returns a client that makes every call of c. now is a clock; tell is told once, before
// the first write.
func New(c hns.Client, now func() time.Time, tell func(Result)) *Client {
	return &Client{Client: c, now: now, tell: tell}
}

// found returns the canary as a network has it; nil: it has none.
func found(n hns.Network) *hns.SetPolicy {
	i := slices.IndexFunc(n.Sets, Is)
	if i < 0 {
		return nil
	}
	s := n.Sets[i]
	s.Values = slices.Clone(s.Values)
	return &s
}

// ModifySets implements hns.Client.
func (c *Client) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	c.first(ctx)
	return c.Client.ModifySets(ctx, verb, sets)
}

// first tries the canary unless it was tried. A process that is told to stop meanwhile still
// takes the set away, within the limit.
func (c *Client) first(ctx context.Context) {
	c.trying.Lock()
	defer c.trying.Unlock()
	if c.tried || ctx.Err() != nil {
		return
	}
	c.tried = true
	began := c.now()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, errLimit)
	defer cancel()
	result := try(ctx, c.Client)
	result.Took = c.now().Sub(began)
	c.tell(result)
}

// try does it. A set that is there already was left by a process that was killed.
func try(ctx context.Context, c hns.Client) Result {
	var r Result
	one := func(verb hns.Verb) error { return c.ModifySets(ctx, verb, []hns.SetPolicy{set()}) }
	err := one(hns.Add)
	if errors.Is(err, hns.ErrAlreadyExists) {
		if err = one(hns.Remove); err == nil {
			err = one(hns.Add)
		}
	}
	if err != nil {
		r.failed("an add of a set", err)
	} else if n, err := c.Network(ctx); err != nil {
		r.failed("a read of the network", err)
	} else if what := compare(found(n)); what != "" {
		r.Otherwise = append(r.Otherwise, what)
	}
	if err := one(hns.Remove); err != nil && !errors.Is(err, hns.ErrNotFound) {
		r.failed("a remove of a set that nothing uses", err)
		r.Left = true
	}
	return r
}

// failed takes over an error: an answer is something that HNS does otherwise, all else is
// unknown.
func (r *Result) failed(what string, err error) {
	if hns.Answered(err) {
		r.Otherwise = append(r.Otherwise, what+" is refused: "+err.Error())
		return
	}
	if r.Unknown == nil {
		r.Unknown = fmt.Errorf("%s: %w", what, err)
	}
}

// compare says how what is shown differs from what was added; empty: it does not.
func compare(shown *hns.SetPolicy) string {
	sent := set()
	switch {
	case shown == nil:
		return "a set that was added is not shown"
	case shown.ID != sent.ID:
		return fmt.Sprintf("a set with the Id %q is shown with %q", sent.ID, shown.ID)
	case shown.Name != sent.Name || shown.Type != sent.Type:
		return fmt.Sprintf("the set %q of type %s is shown as %q of type %s", sent.Name, sent.Type, shown.Name, shown.Type)
	case !slices.Equal(shown.Values, sent.Values):
		return fmt.Sprintf("a set of %s is shown with %s", strings.Join(sent.Values, ","), strings.Join(shown.Values, ","))
	}
	return ""
}

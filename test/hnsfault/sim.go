// Package hnsfault is the simulator of tool/hnssim with everything that only
// tests need: calls that fail, HNS implementations that differ from the strict
// one (personalities), a log of the calls, a text form of the node's state, and
// probes that are traced after every write. It hooks into the strict simulator
// through hnssim.Hooks.
//
// All methods are safe for concurrent use, and no slice is shared with callers.
package hnsfault

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Options says what the simulated node looks like.
type Options struct {
	// Network, ID and Foreign are those of hnssim.Options.
	Network string
	ID      string
	Foreign []hns.EndpointPolicy
	// Now is the clock that transitions are stamped with, called with the Sim
	// locked; nil: none.
	Now func() time.Time
	// Personality is how this HNS differs from the strict one; see SetPersonality.
	Personality Personality
}

// Sim is one simulated node. It implements hns.Client.
type Sim struct {
	*hnssim.Sim
	network string
	now     func() time.Time // may be nil

	// mu guards everything below. The strict simulator takes it in its hooks, so it
	// must not be held while the strict simulator is called.
	mu        sync.Mutex
	log       callLog
	hook      func(Call, When)
	faults    []*armedFault
	rejectSet []func(hns.SetPolicy) bool
	rejectACL []func(hns.ACL) bool
	restarted chan struct{}     // closed and replaced at every restart
	watch     *watch            // nil without probes
	held      map[string]bool   // endpoints that a caller holds → a handle is open
	twins     map[string]string // endpoints → the GUID of another one that goes with it
	odd       *odd              // nil without a personality
}

var _ hns.Client = (*Sim)(nil)

// New returns a node with an empty network and no endpoints.
func New(o Options) *Sim {
	s := &Sim{
		Sim:       hnssim.New(hnssim.Options{Network: o.Network, ID: o.ID, Foreign: o.Foreign}),
		network:   cmp.Or(o.Network, hnssim.DefaultNetwork),
		now:       o.Now,
		restarted: make(chan struct{}),
		held:      map[string]bool{},
		twins:     map[string]string{},
	}
	s.setPersonality(o.Personality)
	s.SetHooks(hnssim.Hooks{Call: s.call, Wrote: s.wrote, TakesRules: s.takesRules})
	return s
}

// call does a request of the client as this HNS does it.
func (s *Sim) call(ctx context.Context, asked hnssim.Call, check, do func(hnssim.Call) error) error {
	asked.Target = s.target(asked.Target)
	c := &Call{Call: asked}
	s.mu.Lock()
	c.DLLCalls = s.price(c)
	s.log.add(c)
	s.mu.Unlock()
	s.runHook(c, Before)
	err := s.perform(ctx, c, func(half bool) error { return s.carryOut(asked, half, check, do) })
	s.mu.Lock()
	c.Err = err
	s.mu.Unlock()
	s.runHook(c, After)
	return err
}

// carryOut does a request, or the first half of one that writes.
func (s *Sim) carryOut(c hnssim.Call, half bool, check, do func(hnssim.Call) error) error {
	plain := s.plain(c)
	if half || s.refusesMore() {
		if err := check(plain); err != nil {
			return s.coded(c, err)
		}
		if err := s.minds(c, plain); err != nil {
			return err
		}
	}
	if half {
		plain = firstHalf(plain)
		if len(c.Sets) == 1 || len(c.ACLs) == 1 {
			return nil // half of one is nothing
		}
	}
	err := do(plain)
	if c.Op == hns.OpEndpointGet && !hns.EndpointGone(err) {
		if unread := s.unread(c); unread != nil {
			return unread
		}
	}
	return s.coded(c, err)
}

// firstHalf returns a request with the first half of its content, rounded down.
func firstHalf(c hnssim.Call) hnssim.Call {
	c.Sets = c.Sets[:len(c.Sets)/2]
	c.ACLs = c.ACLs[:len(c.ACLs)/2]
	c.Policies = c.Policies[:len(c.Policies)/2]
	return c
}

// Restart restarts the service: calls that hang break off. With lose, HNS comes
// back without any set and without our ACLs, and without any other ACL that
// names a set; what remains of the CNI's policies is plumbed again
// (Windows-Containers#278, calico#5164).
func (s *Sim) Restart(lose bool) {
	s.mu.Lock()
	close(s.restarted)
	s.restarted = make(chan struct{})
	s.mu.Unlock()
	if lose {
		all := func(hns.SetPolicy) bool { return true }
		s.Forget("Restart", s.network, all, func(_ string, a hns.ACL) bool { return a.Ours() })
	}
}

// LoseRules has HNS forget our rules on an endpoint; what others have there stays.
func (s *Sim) LoseRules(id string) error {
	if _, ok := s.Endpoint(id); !ok {
		return fmt.Errorf("hnsfault: lose the rules of endpoint %s: %w", id, hns.ErrNotFound)
	}
	none := func(hns.SetPolicy) bool { return false }
	s.Forget("LoseRules", id, none, func(on string, a hns.ACL) bool { return on == id && a.Ours() })
	return nil
}

// LoseSet has HNS forget a set by its Id, in use or not, and with it what names
// it: nested sets and rules, those that name such a nested set too.
func (s *Sim) LoseSet(id string) error {
	is := func(p hns.SetPolicy) bool { return p.ID == id }
	if !slices.ContainsFunc(s.Sets(), is) {
		return fmt.Errorf("hnsfault: lose set %s: %w", id, hns.ErrNotFound)
	}
	s.Forget("LoseSet", id, is, func(string, hns.ACL) bool { return false })
	return nil
}

// LoseAll makes HNS forget all our sets and rules, and every rule that names such a set, without a
// restart of its process.
func (s *Sim) LoseAll() {
	ours := func(p hns.SetPolicy) bool { return strings.HasPrefix(p.ID, hns.SetIDPrefix) }
	s.Forget("LoseAll", s.network, ours, func(_ string, a hns.ACL) bool { return a.Ours() })
}

func cloneSets(in []hns.SetPolicy) []hns.SetPolicy {
	out := slices.Clone(in)
	for i, p := range out {
		out[i].Values = slices.Clone(p.Values)
	}
	return out
}

func clonePolicies(in []hns.EndpointPolicy) []hns.EndpointPolicy {
	out := slices.Clone(in)
	for i, p := range out {
		out[i].Settings = slices.Clone(p.Settings)
	}
	return out
}

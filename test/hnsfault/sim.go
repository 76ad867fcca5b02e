// Package hnsfault extends the simulator of tool/hnssim for tests: failing calls, HNS implementations that
// differ from the strict one (personalities), a log of calls, a dump of the node's state, and probes that
// are traced after every write. It uses hnssim.Hooks.
//
// All methods are safe for concurrent use.
package hnsfault

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Options configure the simulated node.
type Options = hnssim.Options

// Sim is one simulated node. It implements hns.Client.
type Sim struct {
	*hnssim.Sim
	network string

	// mu guards everything below. The strict simulator takes it in its hooks, so it
	// must not be held while the strict simulator is called.
	mu      sync.Mutex
	calls   []*Call
	dll     int // calls of the DLLs
	hook    func(Call, When)
	faults  []*armedFault
	rejects []func(hnssim.Call) bool
	watch   watch
	held    map[string]bool // endpoints that a caller holds; true if a handle is open
	odd     Personality

	asking sync.Mutex // held while a function of the personality runs
}

// New returns a node with an empty network and no endpoints.
func New(o Options) *Sim {
	s := &Sim{Sim: hnssim.New(o), network: cmp.Or(o.Network, hnssim.DefaultNetwork), held: map[string]bool{}}
	s.SetPersonality(Personality{})
	return s
}

// call carries out a request of the client with the node's faults and personality.
func (s *Sim) call(ctx context.Context, asked hnssim.Call, check, do func(hnssim.Call) error) error {
	c := &Call{Call: asked}
	s.record(c)
	s.runHook(c, Before)
	err := s.perform(ctx, c, func(half bool) error { return s.carryOut(asked, half, check, do) })
	s.mu.Lock()
	c.Err = err
	s.mu.Unlock()
	s.runHook(c, After)
	return err
}

// carryOut carries out a request, or the first half of a write.
func (s *Sim) carryOut(c hnssim.Call, half bool, check, do func(hnssim.Call) error) error {
	var refused error
	if !ReadsOnly(c.Op) {
		refused = s.refuse(c)
	}
	if half || refused != nil {
		if err := check(c); err != nil {
			return s.coded(c, err)
		}
	}
	if refused != nil {
		return refused
	}
	if half { // rounded down: half of one added rule is an empty request, which HNS rejects
		c.Sets, c.ACLs, c.Policies = c.Sets[:len(c.Sets)/2], c.ACLs[:len(c.ACLs)/2], c.Policies[:len(c.Policies)/2]
	}
	return s.coded(c, do(c))
}

// Restart restarts the service. HNS loses all sets, our ACLs and other ACLs that name sets, and applies the
// remaining policies of the CNI again (Windows-Containers#278, calico#5164).
func (s *Sim) Restart() {
	all := func(hns.SetPolicy) bool { return true }
	s.Forget("Restart", s.network, all, func(_ string, a hns.ACL) bool { return a.Ours() })
}

// ReadsOnly reports whether an operation changes nothing in HNS.
func ReadsOnly(op string) bool {
	return slices.Contains([]string{hns.OpNetworkGet, hns.OpEndpointIDs, hns.OpEndpointNew, hns.OpEndpointGet}, op)
}

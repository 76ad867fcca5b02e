package hnssim

import (
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/match"
)

// Packet is the first packet of a connection.
type Packet = match.Packet

// Verdict is the decision of the switch on a packet.
type Verdict = match.Verdict

// Tracer is a function like Sim.Trace.
type Tracer func(endpoint string, dir hns.DirectionType, p Packet) (Verdict, error)

// Trace returns the decision on a packet at one endpoint in one direction, by match.Decide over the
// endpoint's rules. It fails if the endpoint does not exist or does not have the packet's address, or if
// the effect of a rule is unknown.
func (s *Sim) Trace(endpoint string, dir hns.DirectionType, p Packet) (Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trace(endpoint, dir, p)
}

// Inspect runs f with the Sim locked, so that the state does not change between calls of the tracer. f must
// not call the Sim.
func (s *Sim) Inspect(f func(Tracer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.trace)
}

// trace is Trace with s.mu held.
func (s *Sim) trace(endpoint string, dir hns.DirectionType, p Packet) (Verdict, error) {
	e := s.endpoints[endpoint]
	if e == nil {
		return Verdict{}, fmt.Errorf("hnssim: trace %s: %w", dir, endpointMissing.of(endpoint))
	}
	if err := e.decidable(dir, p); err != nil {
		return Verdict{}, fmt.Errorf("hnssim: trace %s %s: %w", endpoint, dir, err)
	}
	v, err := match.Decide(rulesOf(e.policies), dir, p)
	if err != nil {
		return Verdict{}, fmt.Errorf("hnssim: trace %s %s: %w", endpoint, dir, err)
	}
	return v, nil
}

// decidable returns an error if the endpoint's ACLs do not decide on the packet.
func (e *endpoint) decidable(dir hns.DirectionType, p Packet) error {
	own, err := p.Own(dir)
	if err != nil {
		return err
	}
	if !slices.Contains(e.Addrs, own) {
		return fmt.Errorf("%w: %v is no address of the endpoint", hns.ErrInvalid, own)
	}
	for i := range e.policies {
		if e.policies[i].read.Type == hns.PolicyTypeTierACL {
			return fmt.Errorf("%w: it has tiered rules", hns.ErrInvalid)
		}
	}
	return nil
}

// rulesOf returns the ACLs among policies, in their order.
func rulesOf(policies []policy) []*match.Rule {
	out := make([]*match.Rule, 0, len(policies))
	for i := range policies {
		if r := policies[i].rule; r != nil {
			out = append(out, &r.Rule)
		}
	}
	return out
}

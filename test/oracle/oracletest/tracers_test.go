package oracletest

import (
	"errors"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/oracle/tracer"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// second is the second tracer, over what the simulator shows at one moment; it
// reads an endpoint when it is first asked about it.
type second struct {
	sim       *hnsfault.Sim
	network   tracer.Network
	endpoints map[string]*tracer.Endpoint
}

// newSecond reads the sets. It fails for one whose effect is not known.
func newSecond(sim *hnsfault.Sim) (*second, error) {
	var sets []tracer.Set
	for _, s := range sim.Sets() {
		sets = append(sets, tracer.Set{ID: s.ID, Type: string(s.Type), Values: strings.Join(s.Values, ",")})
	}
	network, err := tracer.NewNetwork(sets)
	return &second{sim, network, map[string]*tracer.Endpoint{}}, err
}

// trace asks the second tracer.
func (s *second) trace(endpoint string, dir hns.Direction, p hnssim.Packet) (tracer.Verdict, error) {
	if s.endpoints[endpoint] == nil {
		view, ok := s.sim.Endpoint(endpoint)
		if !ok {
			return tracer.Verdict{}, hns.ErrNotFound
		}
		var policies []tracer.Policy
		for _, p := range view.Policies {
			policies = append(policies, tracer.Policy{Type: p.Type, Settings: p.Settings})
		}
		read, err := s.network.Endpoint(view.Addrs, policies)
		if err != nil {
			return tracer.Verdict{}, err
		}
		s.endpoints[endpoint] = read
	}
	return s.endpoints[endpoint].Decide(tracer.Direction(dir), tracer.Packet{Src: p.Src, Dst: p.Dst, Protocol: p.Protocol, Port: p.DstPort})
}

// both asks the simulator's tracer and the second one, which must say the same of
// the packet, by the same rules. The answer is the simulator's.
func (s *second) both(t tester, endpoint string, dir hns.Direction, p hnssim.Packet) (hnssim.Verdict, error) {
	first, err := s.sim.Trace(endpoint, dir, p)
	other, otherErr := s.trace(endpoint, dir, p)
	var deciding []string
	for _, a := range first.Matched {
		deciding = append(deciding, a.ID)
	}
	unknown := errors.Is(err, hns.ErrInvalid) && errors.Is(otherErr, tracer.ErrUnknown)
	same := unknown || errors.Is(err, hns.ErrNotFound) && errors.Is(otherErr, hns.ErrNotFound) ||
		err == nil && otherErr == nil && first.Allowed == other.Allowed && slices.Equal(deciding, other.Deciding)
	if !same {
		t.Fatalf("%s %+v at %s: the simulator traces %+v (%v), the second tracer %+v (%v)\n%s", dir, p, endpoint, first, err, other, otherErr, s.sim.Dump())
	}
	return first, err
}

// tracers returns the two tracers over what there is now.
func (w *world) tracers() *second {
	s, err := newSecond(w.sim)
	require.NoError(w.t, err)
	return s
}

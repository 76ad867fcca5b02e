// Package hnsd puts the simulator in the place of the Windows Host Networking
// Service: it serves hnssim over loopback TCP to the DLLs of test/windows/dll,
// which programs take for HNS. It outlives its clients, as HNS does, and keeps
// their handles.
//
// It is portable, so that a test on Linux can stand behind a program that runs
// under Wine. What HNS leaves open it answers strictly.
package hnsd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/Microsoft/go-winio/pkg/guid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Options says what the node looks like.
type Options struct {
	Network     string               // name of the node's own network; empty: "azure"
	Foreign     []hns.EndpointPolicy // what CreateEndpoint puts on an endpoint
	Personality hnsfault.Personality // of the networks that clients make
}

// Server is the service of one node. All methods are safe for concurrent use.
type Server struct {
	personality hnsfault.Personality
	own         *network

	seeing sync.Mutex // held during a call that is observed

	mu       sync.Mutex          // guards following; never held during a call of the simulator
	networks []*network          // in the order of their creation, own first
	made     map[string]settings // endpoints, as clients made them
	spaces   map[string]settings // namespaces
	in       map[string]string   // endpoints → the namespaces that they are attached to
	handles  map[uint64]handle
	last     uint64 // handle that was opened
	lastID   int    // of the GUIDs made so far
	counts   map[string]int
	seen     func(export string)
	deaf     bool // enumerations ignore their filters
}

// New returns a server whose node has one network without endpoints.
func New(o Options) *Server {
	s := &Server{
		personality: o.Personality,
		made:        map[string]settings{},
		spaces:      map[string]settings{},
		in:          map[string]string{},
		handles:     map[uint64]handle{},
		counts:      map[string]int{},
	}
	subnets := []settings{{"IpAddressPrefix": "10.1.0.0/16", "Routes": []settings{{"NextHop": "10.1.0.1", "DestinationPrefix": "0.0.0.0/0"}}}}
	shown := settings{"Type": "L2Bridge", "Ipams": []settings{{"Type": "Static", "Subnets": subnets}}}
	s.own = newNetwork(s.newID(), cmp.Or(o.Network, "azure"), shown, o.Foreign)
	s.networks = []*network{s.own}
	return s
}

// newID makes a GUID: the same ones in every run, so that two can be compared.
func (s *Server) newID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	id, err := guid.NewV5(guid.GUID{}, fmt.Append(nil, s.lastID))
	if err != nil {
		panic("BUG: hashing never fails: " + err.Error())
	}
	return strings.ToUpper(id.String())
}

// Sim returns the node's own network. Endpoints that are made there need GUIDs
// as IDs.
func (s *Server) Sim() *hnsfault.Sim { return s.own.sim }

// System returns the node as the contract suite asks it, without an adapter.
func (s *Server) System() hnstest.System {
	return hnstest.System{HNS: s.Call, Client: func(network string) (hns.Client, error) {
		for _, n := range s.listNetworks() {
			if n.name == network {
				return client{n.sim, s}, nil
			}
		}
		return client{s.own.sim, s}, nil
	}}
}

// client is the simulator of one network of a node.
type client struct {
	*hnsfault.Sim
	node *Server
}

// GetEndpoint implements hns.Client. Endpoints of the other networks are elsewhere.
func (c client) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	e, err := c.Sim.GetEndpoint(ctx, id)
	if other, gone := c.node.find(kindEndpoint, id); hns.EndpointGone(err) && gone == nil && other.in.sim != c.Sim {
		err = &hns.OpError{Op: hns.OpEndpointGet, Kind: hns.KindEndpoint, ID: id, Err: hns.ErrElsewhere}
	}
	return e, err
}

// CreateEndpoint makes an endpoint in the node's own network and attaches it
// (State 3), as the CNI does for a pod. It returns the endpoint's GUID.
func (s *Server) CreateEndpoint(addr netip.Addr) (string, error) {
	id := s.newID()
	return id, s.own.sim.CreateEndpoint(hnssim.NewEndpoint{ID: id, Addrs: []netip.Addr{addr}})
}

// CreateNamespace makes a network namespace, as a runtime does for a pod before it asks
// CNI, and returns its GUID.
func (s *Server) CreateNamespace() string {
	id := s.newID()
	if err := s.createNamespace(id, settings{"Type": "HostDefault"}); err != nil {
		panic("BUG: a new GUID is taken: " + err.Error())
	}
	return id
}

// DeleteNamespace takes a namespace away. It fails while an endpoint is attached to it.
func (s *Server) DeleteNamespace(id string) error {
	space, err := s.find(kindNamespace, id)
	if err != nil {
		return err
	}
	return space.remove()
}

// Exists returns the names of all networks, and how many endpoints and namespaces there are,
// for a test that looks for objects that a program left behind.
func (s *Server) Exists() (networks []string, endpoints, namespaces int) {
	for _, n := range s.listNetworks() {
		networks = append(networks, n.name)
		endpoints += len(n.sim.Endpoints())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return networks, endpoints, len(s.spaces)
}

// OpenHandles returns, by process, how many handles were opened and never
// closed; processes without any are not there. Those of a process that ended
// stay, so that a test can look at it afterwards; Windows would free them.
func (s *Server) OpenHandles() map[uint32]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[uint32]int{}
	for _, h := range s.handles {
		out[h.pid]++
	}
	return out
}

// Counts returns the calls of the DLLs since the last ResetCounts, by the name
// of the export.
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// ResetCounts forgets the calls so far.
func (s *Server) ResetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counts)
}

// HeedNoFilter makes HNS ignore the filters of enumerations.
func (s *Server) HeedNoFilter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = true
}

// Observe sets a function that runs after each call of the DLLs that makes, changes or deletes an
// object, before the call is answered and before the next such call is carried out. So it sees every
// state that there ever is. nil, as at first: no observer.
func (s *Server) Observe(seen func(export string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = seen
}

// Serve answers the connections that l accepts until ctx ends, and closes l. It
// returns when no call is left.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var all sync.WaitGroup
	defer all.Wait()
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("hnsd: accept: %w", err)
		}
		all.Go(func() { s.serve(ctx, conn) })
	}
}

// serve answers the calls of one connection, one after the other. A frame that
// makes no sense ends it, as there is no call to answer.
func (s *Server) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	for {
		r, err := readRequest(conn)
		if err != nil {
			return
		}
		if _, err := conn.Write(frame(s.answer(ctx, r))); err != nil {
			return
		}
	}
}

// answer counts a call and does it.
func (s *Server) answer(ctx context.Context, r request) hnstest.CallAnswer {
	op := ops[r.op]
	s.mu.Lock()
	s.counts[op.name]++
	s.mu.Unlock()
	a, err := s.run(ctx, op, r)
	if err != nil {
		return refusal(err)
	}
	return a
}

// Call makes one call as the DLLs would, for a program that runs beside the server. It is an
// hnstest.HNS. An error says that there is no such call.
func (s *Server) Call(export, id string, handle uint64, texts ...string) (hnstest.CallAnswer, error) {
	r := request{pid: 1, id: id, handle: handle}
	for number, op := range ops {
		if op.name == export {
			r.op = number
		}
	}
	if r.op == 0 {
		return hnstest.CallAnswer{}, fmt.Errorf("hnsd: no export %s", export)
	}
	copy(r.text[:], texts)
	return s.answer(context.Background(), r), nil
}

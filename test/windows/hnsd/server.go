// Package hnsd puts the simulator in the place of the Windows Host Networking
// Service: it serves hnssim over loopback TCP to the DLLs of test/windows/dll,
// which programs take for HNS. It outlives its clients, as HNS does, keeps
// their handles, and fails at the DLL boundary where it is told to.
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
	"sync"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Options says what the node looks like.
type Options struct {
	Network      string               // name of the node's own network; empty: "azure"
	Subnet       netip.Prefix         // of that network; zero: it has none, and takes every address
	Foreign      []hns.EndpointPolicy // what CreateEndpoint puts on an endpoint
	Major, Minor int                  // HNS version; both 0: 15.0
	Personality  hnsfault.Personality // of the networks that clients make
}

// Server is the service of one node. All methods are safe for concurrent use.
type Server struct {
	major, minor int
	personality  hnsfault.Personality
	own          *network

	mu       sync.Mutex                // guards following; never held during a call of the simulator
	hidden   bool                      // own is not there (yet)
	networks []*network                // in the order of their creation, own first
	made     map[guid]endpointSettings // of endpoints, by the DLLs
	spaces   map[guid]*namespace
	handles  handleTable
	counts   map[string]int
	failed   map[string]int
	spent    map[uint32]Spent // by process, since it asked
	faults   []*armedFault
	habits   habits
	released chan struct{} // closed and replaced by ReleaseHangs
	lastID   uint64        // of the GUIDs made so far

	compartments int // namespaces made so far

	seeing sync.Mutex // held during a call that is observed, mu is not

	turn chan struct{} // of one place: taken by the call that takes its time
}

// New returns a server whose node has one network without endpoints.
func New(o Options) *Server {
	if o.Major == 0 && o.Minor == 0 {
		o.Major = 15
	}
	s := &Server{
		major: o.Major, minor: o.Minor, personality: o.Personality,
		made:     map[guid]endpointSettings{},
		spaces:   map[guid]*namespace{},
		handles:  handleTable{open: map[uint64]handle{}},
		counts:   map[string]int{},
		failed:   map[string]int{},
		spent:    map[uint32]Spent{},
		released: make(chan struct{}),
		turn:     make(chan struct{}, 1),
	}
	s.own = newNetwork(s.newID(), cmp.Or(o.Network, "azure"), networkSettings{Ipams: ipamOf(o.Subnet)}, o.Foreign)
	s.own.subnet = o.Subnet
	s.networks = []*network{s.own}
	return s
}

// Sim returns the node's own network. Endpoints that are made there need GUIDs
// as IDs. Its calls are those that the DLLs ask for: Query is Network/Get or
// Endpoint/Get, and Modify is SetPolicy/Add and so on. Enumerate, Open and Close
// are no calls of its.
func (s *Server) Sim() *hnsfault.Sim { return s.own.sim }

// SimOf returns the simulated network of a name, or the node's own.
func (s *Server) SimOf(name string) *hnsfault.Sim {
	for _, n := range s.listNetworks() {
		if n.name == name {
			return n.sim
		}
	}
	return s.own.sim
}

// HideNetwork takes the node's own network away with its endpoints, as on a
// node whose CNI has not made it yet, or brings it back.
func (s *Server) HideNetwork(hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = hidden
}

// CreateEndpoint makes an endpoint in the node's own network and attaches it
// (State 3), as the CNI does for a pod. It returns the endpoint's GUID.
func (s *Server) CreateEndpoint(addr netip.Addr) (string, error) {
	s.mu.Lock()
	id := s.newID().String()
	s.mu.Unlock()
	if err := s.own.sim.CreateEndpoint(hnssim.NewEndpoint{ID: id, Addrs: []netip.Addr{addr}}); err != nil {
		return "", fmt.Errorf("hnsd: %w", err)
	}
	return id, nil
}

// OpenHandles returns, by process, how many handles were opened and never
// closed; processes without any are not there. Those of a process that ended
// stay, so that a test can look at it afterwards; Windows would free them.
func (s *Server) OpenHandles() map[uint32]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handles.counts()
}

// Counts returns the calls of the DLLs since the last ResetCounts, by the name
// of the export.
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Failed returns how many of the calls in Counts were answered with a failure
// or an error record.
func (s *Server) Failed() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.failed)
}

// ResetCounts forgets the calls so far.
func (s *Server) ResetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counts)
	clear(s.failed)
}

// Serve answers the connections that l accepts until ctx ends, and closes l. It
// returns when no call is left: those that hang are broken off by then.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if conn != nil {
				_ = conn.Close()
			}
			return nil
		case err != nil:
			return fmt.Errorf("hnsd: accept: %w", err)
		}
		all.Go(func() { s.serve(ctx, conn) })
	}
}

// serve answers the calls of one connection, one after the other. A frame that
// makes no sense ends it, as there is nobody to tell.
func (s *Server) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	for {
		r, err := readRequest(conn)
		if err != nil {
			return
		}
		a, err := s.answer(ctx, r)
		if err != nil {
			return
		}
		s.account(r, a)
		if _, err := conn.Write(a.encode()); err != nil {
			return
		}
	}
}

// account counts what Failed returns and what a process has spent.
func (s *Server) account(r request, a reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := ops[r.op].name
	if int32(a.code) < 0 || a.record != nil {
		s.failed[name]++
	}
	if name != callHNS {
		spent := s.spent[r.pid]
		spent.add(name, r, a)
		s.spent[r.pid] = spent
	}
}

// answer counts a call, takes the time that a call takes, and does it, or what a
// fault makes of it. An error says that ctx ended meanwhile.
func (s *Server) answer(ctx context.Context, r request) (reply, error) {
	op, ok := ops[r.op]
	if !ok {
		return fail(codeNotImplemented, "no such call"), nil
	}
	s.mu.Lock()
	s.counts[op.name]++
	f, released := s.due(op.name, r), s.released
	s.mu.Unlock()
	if err := s.takeTime(ctx, op.name); err != nil {
		return reply{}, err
	}
	if f == nil {
		return s.run(ctx, op, r), nil
	}
	return s.runFault(ctx, op, r, f, released)
}

// run does a call and puts its error into the reply.
func (s *Server) run(ctx context.Context, op operation, r request) reply {
	h := s.current()
	if err := h.refuses(op.name, r); err != nil {
		return refusal(err)
	}
	a, err := s.observed(h, op.name, func() (reply, error) { return op.run(s, ctx, r) })
	if err != nil {
		return refusal(err)
	}
	return a
}

// newID makes a GUID; s.mu must be held unless nobody else has the server.
func (s *Server) newID() guid {
	s.lastID++
	return guidOf(fmt.Sprintf("hnsd %d", s.lastID))
}

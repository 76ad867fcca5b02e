// Package hnsd replaces the Windows Host Networking Service by the simulator. It serves hnssim over
// loopback TCP to the DLLs of test/windows/dll, which replace the DLLs of HNS. It outlives its clients,
// like HNS, and keeps their handles.
//
// It is portable, so that a test on Linux can serve a program that runs under Wine. If the behaviour of HNS
// is undocumented, it is strict.
package hnsd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Options configure the node.
type Options struct {
	Network     string               // name of the node's own network; empty: "azure"
	Bare        bool                 // the node has no network of its own
	Foreign     []hns.EndpointPolicy // policies that HNS puts on an endpoint that is created without any
	Personality hnsfault.Personality // of the networks that clients create
}

// Server is the service of one node. All methods are safe for concurrent use.
type Server struct {
	options Options
	own     *object // the node's own network

	seeing sync.Mutex // held during a call that is observed

	mu      sync.Mutex         // guards following
	all     []*object          // in the order of their creation, own first
	handles map[uint64]*object // open ones
	last    uint64             // handle that was opened
	lastID  int                // of the GUIDs made so far
	counts  map[string]int
	seen    func(export string)
}

// New returns a server whose node has one network without endpoints. o.Personality is for networks of clients only.
func New(o Options) *Server {
	s := &Server{options: Options{Foreign: o.Foreign}, handles: map[uint64]*object{}, counts: map[string]int{}}
	if o.Bare {
		return s
	}
	own, err := s.create(request{operation: operation{kind: kindNetwork}, text: fmt.Sprintf(`{"Name":%q,"Type":"L2Bridge","Ipams":[{"Type":"Static",`+
		`"Subnets":[{"IpAddressPrefix":"10.1.0.0/16","Routes":[{"NextHop":"10.1.0.1","DestinationPrefix":"0.0.0.0/0"}]}]}]}`, cmp.Or(o.Network, "azure"))})
	if err != nil {
		panic("BUG: the node's own network: " + err.Error())
	}
	s.own, s.options = own, o
	return s
}

// newID returns a new GUID. Every run has the same sequence, so that runs can be compared.
func (s *Server) newID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	return fmt.Sprintf("%08X-0000-4000-8000-77696E6E706D", s.lastID)
}

// Sim returns the node's own network.
func (s *Server) Sim() *hnsfault.Sim { return s.own.sim }

// System returns the node for the contract suite, without an adapter.
func (s *Server) System() hnstest.System {
	return hnstest.System{HNS: s.Call, Client: func(network string) (hns.Client, error) {
		for _, n := range s.objects(kindNetwork) {
			if n.name == network {
				return n.sim, nil
			}
		}
		return s.own.sim, nil
	}}
}

// CreateEndpoint creates an endpoint in the node's own network and attaches it (State 3), like the CNI for
// a pod. It returns the endpoint's GUID.
func (s *Server) CreateEndpoint(addr netip.Addr) (string, error) {
	id := s.newID()
	return id, s.AddEndpoint(hnssim.SimEndpoint{ID: id, Addrs: []netip.Addr{addr}})
}

// AddEndpoint makes any endpoint, in the node's own network unless it names another one.
func (s *Server) AddEndpoint(e hnssim.SimEndpoint) error {
	network := s.own
	for _, n := range s.objects(kindNetwork) {
		if n.name == e.Network {
			network = n
		}
	}
	o := &object{kind: kindEndpoint, id: e.ID, network: network.id, sim: network.sim, made: settings{}}
	if e.Remote {
		o.made["Flags"] = remoteFlag
	}
	if err := o.sim.CreateEndpoint(e); err != nil {
		return err
	}
	_, err := s.add(o)
	return err
}

// AddNetwork makes another network, with a new GUID if id is empty.
func (s *Server) AddNetwork(id, name, networkType string) (*hnsfault.Sim, error) {
	text := encode(settings{"Name": name, "Type": networkType}).Output
	o, err := s.create(request{operation: operation{kind: kindNetwork}, id: id, text: text})
	if err != nil {
		return nil, err
	}
	return o.sim, nil
}

// RemakeNetwork gives the node's own network another GUID and name. It keeps its sets and endpoints.
func (s *Server) RemakeNetwork(id, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.all {
		if o.network == s.own.id {
			o.network = id
		}
	}
	s.own.id, s.own.name = id, name
}

// Exists returns the kind, GUID and name of each object, for a test that looks for objects that a
// program left behind.
func (s *Server) Exists() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.all {
		all = append(all, fmt.Sprint(o.kind, " ", o.id, " ", o.name))
	}
	return all
}

// OpenHandles returns how many handles were opened and never closed. Those of a process that ended
// stay, so that a test can look at it afterwards; Windows would free them.
func (s *Server) OpenHandles() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.handles)
}

// Counts returns the number of calls of the DLLs so far, by the name of the export.
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Observe sets a function that runs after each call of the DLLs that makes, changes or deletes an object,
// before the call is answered and before the next such call is carried out. So it sees every state. nil
// removes the function.
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
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			all.Go(func() { s.serve(ctx, conn) })
		case ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("hnsd: accept: %w", err)
		}
	}
}

// serve answers the calls of one connection, one after the other. It closes the connection at an invalid
// frame, as there is no call to answer.
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

// Call makes one call like the DLLs, for a program in the same process. It is an hnstest.HNS. It returns an
// error for an unknown export.
func (s *Server) Call(export, id string, handle uint64, texts ...string) (hnstest.CallAnswer, error) {
	for _, op := range ops {
		if op.name == export {
			return s.answer(context.Background(), request{op, id, handle, strings.Join(texts, "")}), nil
		}
	}
	return hnstest.CallAnswer{}, fmt.Errorf("hnsd: no export %s", export)
}

// operation is one export of the DLLs.
type operation struct {
	name, verb string
	kind       kind
}

// ops has every export, by its number in hnsd.h.
var ops = func() map[uint32]operation {
	all := map[uint32]operation{1: {name: "HNSCall"}}
	for i, k := range []kind{kindNetwork, kindEndpoint, kindNamespace} {
		for j, verb := range []string{"Enumerate", "Create", "Open", "Modify", "Query", "Delete", "Close"} {
			name := "Hcn" + verb + string(k) + map[string]string{"Enumerate": "s", "Query": "Properties"}[verb]
			all[uint32(10*(i+1)+j)] = operation{name, verb, k}
		}
	}
	return all
}()

// answer counts a call, carries it out, and calls the observer.
func (s *Server) answer(ctx context.Context, r request) hnstest.CallAnswer {
	s.mu.Lock()
	s.counts[r.name]++
	seen := s.seen
	s.mu.Unlock()
	if seen != nil && slices.Contains([]string{"Create", "Modify", "Delete"}, r.verb) {
		s.seeing.Lock()
		defer s.seeing.Unlock()
		defer seen(r.name)
	}
	a, err := s.run(ctx, r)
	if err != nil { // the record has the form of the HNS schema's Response
		code := cmp.Or(hns.CodeOf(err), codeFail)
		return hnstest.CallAnswer{Code: code, Record: encode(settings{"Success": false, "Error": err.Error(), "ErrorCode": code}).Output}
	}
	return a
}

// run carries out a call.
func (s *Server) run(ctx context.Context, r request) (a hnstest.CallAnswer, err error) {
	var o *object
	switch r.verb {
	case "": // the only request of the older API that is in use
		if r.text != "GET /globals/version" {
			return encode(settings{"Success": false, "Error": "no such request: " + r.text}), nil
		}
		return encode(settings{"Success": true, "Output": settings{"Major": 15, "Minor": 0}}), nil
	case "Enumerate":
		return s.enumerate(r.kind, r.text)
	case "Create":
		o, err = s.create(r)
	case "Open", "Delete":
		o, err = s.find(r.kind, r.id)
	default:
		if o, err = s.held(r, r.kind); err == nil && r.verb != "Close" {
			o, err = s.find(r.kind, o.id)
		}
	}
	if err != nil {
		return a, err
	}
	switch r.verb {
	case "Create", "Open":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last += 0x10 // in Windows handles are addresses; here none is used twice
		s.handles[s.last], a.Handle = o, s.last
	case "Delete":
		err = s.remove(o)
	case "Close":
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.handles, r.handle)
	case "Modify":
		err = s.modify(ctx, o, r.text)
	case "Query":
		if _, err := parseQuery(r.text); err != nil {
			return a, err
		}
		shown, err := s.show(ctx, o)
		return encode(shown), err
	}
	return a, err
}

// held returns the object of r's handle, which must be open and of this kind. The object may have been
// removed.
func (s *Server) held(r request, k kind) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.handles[r.handle]
	if o == nil || o.kind != k {
		return nil, refuse(codeInvalidHandle, "0x%x is no open handle of a %s", r.handle, k)
	}
	return o, nil
}

// filter is the filter of a query, which is JSON in a string. A nil field filters nothing. The keys are of
// the older schema.
type filter struct {
	Name, ID, VirtualNetwork *string
	State                    *hnssim.EndpointState
}

// parseQuery parses a HostComputeQuery.
func parseQuery(text string) (f filter, err error) {
	var q struct {
		SchemaVersion settings
		Flags         uint32
		Filter        string
	}
	if err := decode(text, &q); err != nil || q.Filter == "" {
		return f, err
	}
	return f, decode(q.Filter, &f)
}

// enumerate returns the GUIDs of the objects that match a query. It ignores the case of GUIDs.
func (s *Server) enumerate(k kind, query string) (hnstest.CallAnswer, error) {
	f, err := parseQuery(query)
	is := func(want *string, have string) bool { return want == nil || strings.EqualFold(*want, have) }
	ids := []string{}
	for _, o := range s.objects(k) {
		state := hnssim.Uninitialized
		if k == kindEndpoint {
			e, _ := o.sim.Endpoint(o.id)
			state = e.State
		}
		if is(f.ID, o.id) && is(f.VirtualNetwork, o.network) && (f.Name == nil || *f.Name == o.name) && (f.State == nil || *f.State == state) {
			ids = append(ids, o.id)
		}
	}
	return encode(ids), err
}

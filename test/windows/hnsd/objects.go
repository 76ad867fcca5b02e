package hnsd

import (
	"context"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// kind is what a handle stands for, in the words of the exports.
type kind string

const (
	kindNetwork   kind = "Network"
	kindEndpoint  kind = "Endpoint"
	kindNamespace kind = "Namespace"
)

// missing has the code of an object that is not there.
var missing = map[kind]uint32{kindNetwork: codeNetworkNotFound, kindEndpoint: codeEndpointNotFound, kindNamespace: codeElementNotFound}

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

// handle is one open handle of one process.
type handle struct {
	pid  uint32
	kind kind
	id   string
}

// settings is an object as clients send it and as HNS shows it.
type settings map[string]any

// v2 is the version of the HCN documents.
var v2 = schemaVersion{Major: 2}

type schemaVersion struct{ Major, Minor int }

// object is one network, endpoint or namespace, and what its kind makes of the exports.
type object struct {
	id, name string
	in       *network             // that an endpoint is in, or that this is; nil: a namespace
	state    hnssim.EndpointState // of an endpoint
	show     func(ctx context.Context) (settings, error)
	modify   func(ctx context.Context, request string) error
	remove   func() error
}

// objects returns all objects of a kind.
func (s *Server) objects(k kind) []object {
	switch k {
	case kindNetwork:
		return s.networkObjects()
	case kindEndpoint:
		return s.endpointObjects()
	default:
		return s.namespaceObjects()
	}
}

func (s *Server) find(k kind, id string) (object, error) {
	for _, o := range s.objects(k) {
		if strings.EqualFold(o.id, id) {
			return o, nil
		}
	}
	return object{}, refuse(missing[k], "%s %s was not found", k, id)
}

// run carries out a call and tells the observer.
func (s *Server) run(ctx context.Context, op operation, r request) (hnstest.CallAnswer, error) {
	s.mu.Lock()
	seen, deaf := s.seen, s.deaf
	s.mu.Unlock()
	if seen != nil && slices.Contains([]string{"Create", "Modify", "Delete"}, op.verb) {
		s.seeing.Lock()
		defer s.seeing.Unlock()
		defer seen(op.name)
	}
	switch op.verb {
	case "":
		return version(r.text[0]), nil
	case "Enumerate":
		return s.enumerate(op.kind, r.text[0], deaf)
	case "Create":
		return s.create(op.kind, r)
	case "Open":
		o, err := s.find(op.kind, r.id)
		return s.opened(r, op.kind, o.id, err)
	case "Delete":
		o, err := s.find(op.kind, r.id)
		if err != nil {
			return hnstest.CallAnswer{}, err
		}
		return hnstest.CallAnswer{}, o.remove()
	case "Close":
		return hnstest.CallAnswer{}, s.closeHandle(r, op.kind)
	}
	o, err := s.held(r, op.kind)
	if err != nil {
		return hnstest.CallAnswer{}, err
	}
	if op.verb == "Modify" {
		return hnstest.CallAnswer{}, o.modify(ctx, r.text[0])
	}
	if _, err := parseQuery(r.text[0]); err != nil {
		return hnstest.CallAnswer{}, err
	}
	shown, err := o.show(ctx)
	if err != nil {
		return hnstest.CallAnswer{}, err
	}
	shown["ID"], shown["SchemaVersion"] = o.id, v2
	return encode(shown), nil
}

// version does the one request of the older API that programs make.
func version(request string) hnstest.CallAnswer {
	if request != "GET /globals/version" {
		return encode(settings{"Success": false, "Error": "no such request: " + request})
	}
	return encode(settings{"Success": true, "Output": schemaVersion{15, 0}})
}

// opened returns the reply that hands a new handle to the process of r, unless err says that there
// is no object.
func (s *Server) opened(r request, k kind, id string, err error) (hnstest.CallAnswer, error) {
	if err != nil {
		return hnstest.CallAnswer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last += 0x10 // in Windows they are addresses, and none is used twice here
	s.handles[s.last] = handle{r.pid, k, id}
	return hnstest.CallAnswer{Handle: s.last}, nil
}

// held returns the object that the handle of r stands for. It must be open, of the same process and
// of this kind.
func (s *Server) held(r request, k kind) (object, error) {
	s.mu.Lock()
	h := s.handles[r.handle]
	s.mu.Unlock()
	if h.pid != r.pid || h.kind != k {
		return object{}, refuse(codeInvalidHandle, "0x%x is no open handle of a %s", r.handle, k)
	}
	return s.find(k, h.id)
}

func (s *Server) closeHandle(r request, k kind) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.handles[r.handle]; h.pid != r.pid || h.kind != k {
		return refuse(codeInvalidHandle, "0x%x is no open handle of a %s", r.handle, k)
	}
	delete(s.handles, r.handle)
	return nil
}

// filter is the one of a query; it comes as JSON inside a string. What is nil
// filters nothing. Its keys are of the older schema.
type filter struct {
	Name, ID, VirtualNetwork *string
	State                    *uint16
}

// parseQuery reads a HostComputeQuery.
func parseQuery(text string) (f filter, err error) {
	var q struct {
		SchemaVersion schemaVersion
		Flags         uint32
		Filter        string
	}
	if err := decode(text, &q); err != nil {
		return f, err
	}
	if q.Filter == "" {
		return f, nil
	}
	return f, decode(q.Filter, &f)
}

// matches reports whether a query asks for an object. The case of GUIDs does not count.
func (f filter) matches(o object) bool {
	id := func(want *string, have string) bool { return want == nil || strings.EqualFold(*want, have) }
	return id(f.ID, o.id) && (f.VirtualNetwork == nil || o.in != nil && id(f.VirtualNetwork, o.in.id)) && (f.Name == nil || *f.Name == o.name) &&
		(f.State == nil || hnssim.EndpointState(*f.State) == o.state)
}

func (s *Server) enumerate(k kind, query string, deaf bool) (hnstest.CallAnswer, error) {
	f, err := parseQuery(query)
	if err != nil {
		return hnstest.CallAnswer{}, err
	}
	if deaf {
		f = filter{}
	}
	ids := []string{}
	for _, o := range s.objects(k) {
		if f.matches(o) {
			ids = append(ids, o.id)
		}
	}
	return encode(ids), nil
}

// create makes an object with the GUID that the caller gives as an argument or in the settings, or
// a new one.
func (s *Server) create(k kind, r request) (hnstest.CallAnswer, error) {
	var shown settings
	if err := decode(r.text[0], &shown); err != nil {
		return hnstest.CallAnswer{}, err
	}
	id := r.id
	if id == "" {
		if id, _ = shown["ID"].(string); id == "" {
			id = s.newID()
		}
	}
	var err error
	switch k {
	case kindNetwork:
		err = s.createNetwork(id, shown)
	case kindEndpoint:
		err = s.createEndpoint(id, shown, r)
	default:
		err = s.createNamespace(id, shown)
	}
	return s.opened(r, k, id, err)
}

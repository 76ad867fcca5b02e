package hnsd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// kind is the kind of a handle's object, as in the names of the exports.
type kind string

const (
	kindNetwork   kind = "Network"
	kindEndpoint  kind = "Endpoint"
	kindNamespace kind = "Namespace"
)

// missing has the codes for objects that do not exist.
var missing = map[kind]uint32{kindNetwork: codeNetworkNotFound, kindEndpoint: codeEndpointNotFound, kindNamespace: codeElementNotFound}

// settings is an object as clients send it and as HNS returns it.
type settings map[string]any

// object is one network, endpoint or namespace.
type object struct {
	kind     kind
	id, name string
	made     settings      // as the client sent it
	sim      *hnsfault.Sim // of a network and its endpoints
	network  string        // GUID of an endpoint's, or of this one
	space    string        // namespace that an endpoint is attached to; Server.mu guards it
}

// objects returns all objects of a kind.
func (s *Server) objects(k kind) (all []*object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.all {
		if o.kind == k {
			all = append(all, o)
		}
	}
	return all
}

func (s *Server) find(k kind, id string) (*object, error) {
	for _, o := range s.objects(k) {
		if strings.EqualFold(o.id, id) {
			return o, nil
		}
	}
	return nil, refuse(missing[k], "%s %s was not found", k, id)
}

// add adds an object. It fails if it exists.
func (s *Server) add(o *object) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.all, func(p *object) bool {
		return p.id == o.id || o.kind == kindNetwork && p.kind == kindNetwork && p.name == o.name
	}) {
		return nil, refuse(codeNetworkExists, "%s %s %s is there", o.kind, o.id, o.name)
	}
	s.all = append(s.all, o)
	return o, nil
}

// create creates an object. Its GUID is the one in the argument or in the settings, or a new one.
func (s *Server) create(r request) (*object, error) {
	o := &object{kind: r.kind}
	if err := decode(r.text, &o.made); err != nil {
		return nil, err
	}
	o.name, _ = o.made["Name"].(string)
	given, _ := o.made["ID"].(string)
	if o.id = cmp.Or(r.id, given); o.id == "" {
		o.id = s.newID()
	}
	o.network = o.id
	switch o.kind {
	case kindNetwork:
		if o.name == "" {
			return nil, refuse(codeInvalidJSON, "a network without a name")
		}
		o.sim = hnsfault.New(hnsfault.Options{Network: o.name, ID: o.id, Foreign: s.options.Foreign})
		o.sim.SetPersonality(s.options.Personality)
	case kindEndpoint:
		if err := s.createEndpoint(o, r); err != nil {
			return nil, err
		}
	case kindNamespace: // a namespace has only an Id
	}
	return s.add(o)
}

// remoteFlag marks an endpoint of another node (hcn EndpointFlagsRemoteEndpoint).
const remoteFlag = 1

type ipConfig struct {
	IPAddress    netip.Addr `json:"IpAddress"`
	PrefixLength int
}

func (s *Server) createEndpoint(o *object, r request) error {
	network, err := s.held(r, kindNetwork)
	if err != nil {
		return err
	}
	var asked struct {
		Policies         []hns.EndpointPolicy
		IPConfigurations []ipConfig `json:"IpConfigurations"`
		Flags            uint32
	}
	if err := json.Unmarshal([]byte(r.text), &asked); err != nil {
		return refuse(codeInvalidJSON, "%w", err)
	}
	e := hnssim.SimEndpoint{ID: o.id, State: hnssim.Created}
	if len(asked.Policies) > 0 {
		e.Policies = asked.Policies
	}
	if asked.Flags&remoteFlag != 0 {
		// Strict: only the flag distinguishes it from a pod's endpoint.
		e.Remote, e.State = true, hnssim.AttachedSharing
	}
	for _, c := range asked.IPConfigurations {
		e.Addrs = append(e.Addrs, c.IPAddress)
	}
	o.sim, o.network = network.sim, network.id
	return o.sim.CreateEndpoint(e)
}

// remove removes an object. It fails for an object that others depend on, and for the node's own network.
func (s *Server) remove(o *object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o == s.own || slices.ContainsFunc(s.all, func(e *object) bool {
		return e.kind == kindEndpoint && e != o && (e.network == o.id || e.space == o.id)
	}) {
		return refuse(codeHasReferences, "%s %s has endpoints, or is the node's own", o.kind, o.id)
	}
	if o.kind == kindEndpoint && o.sim.DeleteEndpoint(o.id) != nil {
		return refuse(codeEndpointNotFound, "endpoint %s is gone", o.id) // removed by a concurrent call
	}
	s.all = slices.DeleteFunc(s.all, func(p *object) bool { return p == o })
	return nil
}

// policyTypeSet is a network policy that is a set.
const policyTypeSet = "SetPolicy"

// setSettings are the settings of a SetPolicy (hcsshim hcn SetPolicySetting).
type setSettings struct {
	ID         string `json:"Id"`
	Name       string
	PolicyType hns.SetType
	Values     string // separated by commas
}

// show returns an object as HNS returns it.
func (s *Server) show(ctx context.Context, o *object) (settings, error) {
	out := maps.Clone(o.made)
	out["ID"], out["SchemaVersion"], out["Version"] = o.id, settings{"Major": 2, "Minor": 0}, 0xF00000000
	switch o.kind {
	case kindNetwork: // the sets, and one policy that is not a set
		read, err := o.sim.Network(ctx)
		if err != nil {
			return nil, err
		}
		all := []hns.EndpointPolicy{{Type: "NetAdapterName", Settings: []byte(`{"NetworkAdapterName":"Ethernet"}`)}}
		for _, p := range read.Sets {
			set := encode(setSettings{p.ID, p.Name, p.Type, strings.Join(p.Values, ",")})
			all = append(all, hns.EndpointPolicy{Type: policyTypeSet, Settings: []byte(set.Output)})
		}
		out["Name"], out["Policies"], out["State"] = o.name, all, 1
	case kindEndpoint:
		e, _ := o.sim.Endpoint(o.id) // including remote ones, like the DLLs
		if _, err := o.sim.GetEndpoint(ctx, o.id); err != nil && !errors.Is(err, hns.ErrElsewhere) {
			return nil, err
		}
		configs := []ipConfig{}
		for _, a := range e.Addrs {
			configs = append(configs, ipConfig{a, 16})
		}
		out["HostComputeNetwork"], out["HostComputeNamespace"], out["Policies"], out["IpConfigurations"] = o.network, s.spaceOf(o), e.Policies, configs
		out["MacAddress"], out["State"] = "00-15-5D-00-00-01", e.State
	case kindNamespace:
		var resources []settings
		for _, e := range s.objects(kindEndpoint) {
			if s.spaceOf(e) == o.id {
				resources = append(resources, settings{"Type": "Endpoint", "Data": settings{"ID": e.id}})
			}
		}
		out["Resources"] = resources
	}
	return out, nil
}

// spaceOf returns the namespace that an endpoint is attached to.
func (s *Server) spaceOf(o *object) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return o.space
}

// modify changes an object. Clients omit an empty list of policies, so the settings may be an empty object.
func (s *Server) modify(ctx context.Context, o *object, request string) error {
	var m struct {
		ResourceType string
		RequestType  hns.Verb
		Settings     struct {
			Policies   []hns.EndpointPolicy // of networks too: they have the same shape
			EndpointID string
		}
	}
	if err := decode(request, &m); err != nil {
		return err
	}
	verb, policies := m.RequestType, m.Settings.Policies
	switch want := map[bool]string{false: "Policy", true: "Endpoint"}[o.kind == kindNamespace]; {
	case m.ResourceType != want:
		return refuse(codeRequestUnsupported, "%s of a %s", verb, m.ResourceType)
	case o.kind == kindNamespace:
		return s.attach(o, verb, m.Settings.EndpointID)
	case o.kind == kindNetwork:
		return o.modifySets(ctx, verb, policies)
	case verb == hns.Update:
		return o.sim.ReplacePolicies(ctx, o.id, policies)
	}
	acls := make([]hns.ACL, len(policies))
	for i, p := range policies {
		var err error
		if verb != hns.Add || p.Type != hns.PolicyTypeACL {
			return refuse(codeRequestUnsupported, "%s of a %s", verb, p.Type)
		}
		if acls[i], err = p.ACL(); err != nil {
			return refuse(codeInvalidJSON, "%w", err)
		}
	}
	return o.sim.AddACLs(ctx, o.id, acls)
}

func (o *object) modifySets(ctx context.Context, verb hns.Verb, list []hns.EndpointPolicy) error {
	sets := make([]hns.SetPolicy, len(list))
	for i, p := range list {
		if p.Type != policyTypeSet {
			return refuse(codeRequestUnsupported, "a network policy of type %q", p.Type)
		}
		var s setSettings
		if err := decode(string(p.Settings), &s); err != nil {
			return err
		}
		sets[i] = hns.SetPolicy{ID: s.ID, Name: s.Name, Type: s.PolicyType}
		if s.Values != "" {
			sets[i].Values = strings.Split(s.Values, ",")
		}
	}
	return o.sim.ModifySets(ctx, verb, sets)
}

// attach attaches an endpoint to a namespace or detaches it.
func (s *Server) attach(space *object, verb hns.Verb, id string) error {
	e, err := s.find(kindEndpoint, id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case verb == hns.Add && e.space != "":
		return refuse(codeEndpointAttached, "endpoint %s is attached to %s", e.id, e.space)
	case verb == hns.Add:
		e.space = space.id
		return e.sim.SetState(e.id, hnssim.AttachedSharing)
	case verb != hns.Remove || e.space != space.id:
		return refuse(codeEndpointNotFound, "endpoint %s is not attached to %s", e.id, space.id)
	}
	e.space = ""
	return e.sim.SetState(e.id, hnssim.Detached)
}

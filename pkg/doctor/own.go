package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// What the doctor makes has these names, and nobody else's has: what bears one was left by a
// run that was killed.
const (
	ownName      = "winnpm-doctor"
	ownID        = "d0c70000-5f3a-4c1e-9b6d-77696e6e7001"
	ownNamespace = "d0c70000-5f3a-4c1e-9b6d-77696e6e7002"
	ownPod       = "d0c70000-5f3a-4c1e-9b6d-77696e6e7010" // the endpoint that rules are written to
	ownTwin      = "d0c70000-5f3a-4c1e-9b6d-77696e6e7011" // another one with its address
	ownLoose     = "d0c70000-5f3a-4c1e-9b6d-77696e6e7012" // one that is not attached
	ownRemote    = "d0c70000-5f3a-4c1e-9b6d-77696e6e7013" // one of another node
	ownSpaceB    = "d0c70000-5f3a-4c1e-9b6d-77696e6e7003" // namespaces and endpoints that packets come from
	ownSpaceC    = "d0c70000-5f3a-4c1e-9b6d-77696e6e7004"
	ownPeerB     = "d0c70000-5f3a-4c1e-9b6d-77696e6e7020"
	ownPeerC     = "d0c70000-5f3a-4c1e-9b6d-77696e6e7021"
	nobody       = "d0c70000-5f3a-4c1e-9b6d-77696e6e70ff" // is never made
)

// Types of the doctor's own network.
const (
	natNetwork    = "NAT"
	bridgeNetwork = "L2Bridge"
)

func typeOfOwn(l2bridge bool) string {
	if l2bridge {
		return bridgeNetwork
	}
	return natNetwork
}

// subnets keep the two types apart, and away from the contract suite's.
var subnets = map[string]string{natNetwork: "10.91.0", bridgeNetwork: "10.92.0"}

// ownNetwork is phase 1. It takes away what an earlier run left, makes a network, asks what
// HNS makes of it, and takes it away again, also when ctx ended. It returns what is left.
func (e *exam) ownNetwork(kind string) []string {
	e.probe = "clean before"
	if _, r := e.enumerate("may it ask at all", network, ""); !r.ok() {
		e.find("W1", Unknown, "networks cannot be listed: "+r.said(), r)
		return nil
	}
	if left := e.clean(); len(left) > 0 {
		e.find("W1", Unknown, "what an earlier run left is in the way: "+strings.Join(left, ", "))
		return left
	}
	if e.makeOwn(kind) {
		e.askSets(kind)
		e.askRules(kind)
		e.further()
	}
	ctx := e.ctx
	e.ctx = context.WithoutCancel(ctx)
	e.probe = "clean after"
	left := e.clean()
	e.ctx = ctx
	return left
}

// makeOwn makes the network, a namespace and an endpoint in it.
func (e *exam) makeOwn(kind string) bool {
	if !e.begin("make a network") {
		return false
	}
	e.net = subnets[kind]
	settings := fmt.Sprintf(`{"Name":%q,"Type":%q,"Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"%s.0/24",`+
		`"Routes":[{"NextHop":"%s.1","DestinationPrefix":"0.0.0.0/0"}]}]}],"SchemaVersion":{"Major":2,"Minor":0}}`, ownName, kind, e.net, e.net)
	made := e.create("a network of its own", network, ownID, 0, settings)
	if !made.ok() {
		e.find("W1", Unknown, "no network of type "+kind+" can be made: "+made.said(), made)
		return false
	}
	space := e.create("a namespace of its own", namespace, ownNamespace, 0, `{"Type":"Host","SchemaVersion":{"Major":2,"Minor":0}}`)
	if !space.ok() {
		e.find("W1", Unknown, "no namespace can be made: "+space.said(), space)
		return false
	}
	if r := e.makePod(); !r.ok() {
		e.find("W1", Unknown, "no endpoint can be attached: "+r.said(), r)
		return false
	}
	shown, ok := e.look(endpoint, ownPod)
	e.holds("W9", ok && strings.EqualFold(shown.ID, ownPod), "an endpoint has the GUID that it was made with", shown.record)
	if ok { // by its namespace the agent knows the endpoint of a pod that starts
		e.holds("", strings.EqualFold(shown.HostComputeNamespace, ownNamespace), "an attached endpoint does not show its namespace", shown.record)
	}
	return true
}

// makePod makes the endpoint that rules are written to, and attaches it as containerd does.
func (e *exam) makePod() *Record {
	if r := e.makeEndpoint("an endpoint in it", ownPod, e.net+".4", 0); !r.ok() {
		return r
	}
	return e.attach(ownNamespace, ownPod)
}

// attach puts an endpoint into a namespace.
func (e *exam) attach(space, id string) *Record {
	return e.modify("attach it", namespace, space, `{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":"`+id+`"}}`)
}

// create makes an object and closes it.
func (e *exam) create(asks, kind, id string, in uint64, settings string) *Record {
	out, r := e.call(asks, "HcnCreate"+kind, Arguments{Handle: in, ID: id, Texts: []string{settings}})
	if out.Handle != 0 {
		e.call("", "HcnClose"+kind, Arguments{Handle: out.Handle})
	}
	return r
}

// makeEndpoint makes an endpoint in the doctor's own network.
func (e *exam) makeEndpoint(asks, id, address string, flags int) *Record {
	return e.with(asks, network, ownID, func(h uint64) *Record {
		return e.create(asks, endpoint, id, h, fmt.Sprintf(`{"Name":%q,"HostComputeNetwork":%q,"Policies":[],`+
			`"IpConfigurations":[{"IpAddress":%q,"PrefixLength":24}],"Flags":%d,"SchemaVersion":{"Major":2,"Minor":0}}`,
			ownName, ownID, address, flags))
	})
}

// look reads an object; ok is false when it shows nothing.
func (e *exam) look(kind, id string) (f found, ok bool) {
	f.record = e.read("", kind, id)
	f.object, ok = f.record.shown()
	return f, ok
}

// clean takes away everything that bears the doctor's names, and returns what it could not.
func (e *exam) clean() []string {
	var left []string
	remove := func(kind, id string) {
		_, r := e.call("", "HcnDelete"+kind, Arguments{ID: id})
		if !r.ok() && !missing(r) {
			left = append(left, kind+" "+id+": "+r.said())
		}
	}
	for _, id := range []string{ownPod, ownTwin, ownLoose, ownRemote, ownPeerB, ownPeerC} {
		remove(endpoint, id)
	}
	networks := []string{ownID}
	ids, r := e.enumerate("", network, `{"Name":`+quoted(ownName)+`}`)
	if !r.ok() {
		left = append(left, "networks cannot be listed: "+r.said())
	}
	for _, id := range ids {
		if !slices.ContainsFunc(networks, func(known string) bool { return strings.EqualFold(known, id) }) {
			networks = append(networks, id)
		}
	}
	for _, id := range networks {
		here, r := e.enumerate("", endpoint, `{"VirtualNetwork":`+quoted(id)+`}`)
		if !r.ok() && !missing(r) {
			left = append(left, "endpoints cannot be listed: "+r.said())
		}
		for _, ep := range here {
			if e.belongs(ep, id) {
				remove(endpoint, ep)
			}
		}
	}
	for _, id := range []string{ownNamespace, ownSpaceB, ownSpaceC} {
		remove(namespace, id)
	}
	for _, id := range networks {
		remove(network, id)
	}
	return left
}

// belongs reports whether an endpoint is in one of the doctor's networks: a list is not
// believed before something is deleted, as HNS may not heed its filter.
func (e *exam) belongs(id, network string) bool {
	f, ok := e.look(endpoint, id)
	return ok && strings.EqualFold(f.HostComputeNetwork, network)
}

// missing reports whether HNS says that what a call was about is not there.
func missing(r *Record) bool {
	return r.Error == "" && int32(r.code) < 0 && r.class() == hns.SaysMissing
}

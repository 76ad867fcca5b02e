package oracletest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Rules that the dataplane does not write, but others may: what a rule means is
// not only right where we make use of it.

// The Ids of the sets of newGround.
const (
	both, empty, front     = "azure-npm-both", "azure-npm-empty", "azure-npm-front"
	none, onlyEmpty        = "azure-npm-none", "azure-npm-only-empty"
	self, web, ownEndpoint = "azure-npm-self", "azure-npm-web", "ep"
)

// newGround returns a node with sets of every form, and one endpoint.
func newGround(t tester) *hnsfault.Sim {
	sim := hnsfault.New(hnsfault.Options{})
	for _, s := range []hns.SetPolicy{
		{ID: empty, Type: hns.IPSet}, {ID: front, Type: hns.IPSet, Values: []string{"10.0.1.3"}},
		{ID: self, Type: hns.IPSet, Values: []string{"10.0.0.1"}}, {ID: web, Type: hns.IPSet, Values: []string{"10.0.1.2", "10.0.2.0/24"}},
		{ID: both, Type: hns.NestedIPSet, Values: []string{front, web}}, {ID: none, Type: hns.NestedIPSet},
		{ID: onlyEmpty, Type: hns.NestedIPSet, Values: []string{empty}},
	} {
		s.Name = s.ID
		require.NoError(t, sim.PutSet(s))
	}
	addrs := []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	require.NoError(t, sim.CreateEndpoint(hnssim.NewEndpoint{ID: ownEndpoint, Addrs: addrs}))
	return sim
}

// rules returns rules as policies, In, Allow and of priority 222 unless they say otherwise.
func rules(acls ...hns.ACL) []hns.EndpointPolicy {
	out := make([]hns.EndpointPolicy, len(acls))
	for i, a := range acls {
		a.ID = fmt.Sprintf("azure-acl-%d", i)
		a.Action, a.Direction, a.RuleType = cmp.Or(a.Action, hns.Allow), cmp.Or(a.Direction, hns.In), cmp.Or(a.RuleType, hns.Switch)
		if a.RuleType == hns.Switch {
			a.Priority = cmp.Or(a.Priority, 222)
		}
		out[i] = hns.NewACLPolicy(a)
	}
	return out
}

// rawRules are one list of rules each.
var rawRules = map[string][]hns.EndpointPolicy{
	"In: sets at both sides":    rules(hns.ACL{LocalAddresses: web, RemoteAddresses: self}),
	"In: remote sets":           rules(hns.ACL{RemoteAddresses: web}),
	"Out: sets at both sides":   rules(hns.ACL{Direction: hns.Out, LocalAddresses: self, RemoteAddresses: web}),
	"Out: local sets":           rules(hns.ACL{Direction: hns.Out, LocalAddresses: web}),
	"sets are ANDed":            rules(hns.ACL{LocalAddresses: both + "," + web}),
	"an empty set":              rules(hns.ACL{LocalAddresses: empty}),
	"an empty nested set":       rules(hns.ACL{LocalAddresses: none}),
	"a nested set of an empty":  rules(hns.ACL{LocalAddresses: onlyEmpty}),
	"In: literals":              rules(hns.ACL{LocalAddresses: "10.0.0.1", RemoteAddresses: "10.0.1.2,10.0.2.0/25"}),
	"Out: literals":             rules(hns.ACL{Direction: hns.Out, LocalAddresses: "10.0.0.1", RemoteAddresses: "10.0.1.2,10.0.2.0/25"}),
	"literals and sets":         rules(hns.ACL{Direction: hns.Out, LocalAddresses: "10.0.0.1", RemoteAddresses: web}),
	"any protocol":              rules(hns.ACL{}, hns.ACL{Direction: hns.Out, Action: hns.Block, Protocols: hns.AnyProtocol}),
	"ports":                     rules(hns.ACL{Protocols: "6", LocalPorts: "7,80-82"}, hns.ACL{Direction: hns.Out, Protocols: "6", RemotePorts: "7,80-82"}),
	"ports of the source":       rules(hns.ACL{Protocols: "6", RemotePorts: "80"}),
	"a Host rule":               rules(hns.ACL{Action: hns.Block, RuleType: hns.Host}),
	"no layer":                  {{Type: hns.PolicyTypeACL, Settings: []byte(`{"Action":"Allow","Direction":"In","Priority":65500}`)}},
	"tiers":                     {{Type: hns.PolicyTypeTierACL, Settings: []byte(`{"Name":"a"}`)}},
	"one priority, two actions": rules(hns.ACL{LocalAddresses: web}, hns.ACL{Action: hns.Block, RemoteAddresses: "10.0.1.2"}),
	"several of one priority":   rules(hns.ACL{LocalAddresses: web}, hns.ACL{}, hns.ACL{Action: hns.Block, Priority: 300}),
}

// TestRawRules: the tracers agree on every form of rule.
func TestRawRules(t *testing.T) {
	for name, policies := range rawRules {
		t.Run(name, func(t *testing.T) {
			sim := newGround(t)
			require.NoError(t, sim.SetPolicies(ownEndpoint, policies))
			sameVerdicts(t, sim, map[string]int{})
		})
	}
}

// TestRandomRules is TestRawRules with lists of random rules, as far as the
// simulator takes them.
func TestRandomRules(t *testing.T) {
	seen := map[string]int{}
	check(t, func(t *rapid.T) {
		sim := newGround(t)
		var policies []hns.EndpointPolicy
		for i := range rapid.IntRange(1, 6).Draw(t, "rules") {
			next := append(slices.Clone(policies), drawRule(t, fmt.Sprintf("r%d", i)))
			if err := sim.SetPolicies(ownEndpoint, next); err != nil {
				require.ErrorIs(t, err, hns.ErrInvalid)
				seen["refused"]++
				continue
			}
			policies = next
		}
		sameVerdicts(t, sim, seen)
	})
	for _, what := range []string{"allowed", "denied", "default", "not known", "refused"} {
		ever(t, seen[what], "never: "+what)
	}
}

// drawRule draws an ACL as somebody may have written it, with any set anywhere.
func drawRule(t *rapid.T, id string) hns.EndpointPolicy {
	pick := func(what string, texts ...string) string { return rapid.SampledFrom(texts).Draw(t, what) }
	address := func(what string) string {
		if rapid.Bool().Draw(t, what+" are sets") {
			a, b := pick(what, both, empty, none, onlyEmpty, self, web), pick(what, "", "", both, none, web)
			return strings.Trim(a+","+b, ",")
		}
		return pick(what, "", "", "10.0.1.2", "10.0.0.1/32,10.0.1.2", "10.0.0.0/8", "0.0.0.0/0", "10.0.2.0/25,10.0.1.3")
	}
	acl := map[string]any{
		"Id": pick("owner", "azure-acl-", "cni-") + id, "Action": pick("action", "Allow", "Block"), "Direction": pick("direction", "In", "Out"),
		"Priority": rapid.SampledFrom([]int{200, 222, 222, 3000}).Draw(t, "priority"),
		"Scope":    0, "Type": "ACL",
		"LocalAddresses": address("local addresses"), "RemoteAddresses": address("remote addresses"),
	}
	for _, field := range [][]string{
		{"RuleType", "", "Switch", "Switch", "Host"}, {"Protocols", "", "256", "6", "17", "1"},
		{"LocalPorts", "", "", "", "80", "1-90,443"}, {"RemotePorts", "", "", "", "80", "1-90,443"},
	} {
		if text := pick(field[0], field[1:]...); text != "" || rapid.Bool().Draw(t, "empty") {
			acl[field[0]] = text
		}
	}
	if acl["RuleType"] == "Host" {
		delete(acl, "Priority")
	}
	settings, err := json.Marshal(acl)
	require.NoError(t, err)
	return hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: settings}
}

// sameVerdicts asks both tracers about packets of the endpoint, with every address
// that a set or a rule has, or just has not, in both directions.
func sameVerdicts(t tester, sim *hnsfault.Sim, seen map[string]int) {
	s, err := newSecond(sim)
	require.NoError(t, err)
	for _, text := range []string{"10.0.0.1", "10.0.0.2", "10.0.1.2", "10.0.1.3", "10.0.2.0", "10.0.2.128", "10.0.3.0", "8.8.8.8"} {
		other := netip.MustParseAddr(text)
		for _, own := range []string{"10.0.0.1", "10.0.0.2"} {
			own := netip.MustParseAddr(own)
			for _, port := range []struct {
				protocol uint8
				number   uint16
			}{{6, 80}, {6, 83}, {17, 80}, {1, 0}} {
				for dir, p := range map[hns.Direction]hnssim.Packet{hns.In: {Src: other, Dst: own}, hns.Out: {Src: own, Dst: other}} {
					p.Protocol, p.DstPort = port.protocol, port.number
					v, err := s.both(t, ownEndpoint, dir, p)
					switch {
					case err != nil:
						seen["not known"]++
					case v.Default:
						seen["default"]++
					case v.Allowed:
						seen["allowed"]++
					default:
						seen["denied"]++
					}
				}
			}
		}
	}
}

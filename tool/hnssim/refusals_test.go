package hnssim

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// newTown returns a small node: two leaves, a list of the first, a leaf that only
// a rule names, and endpoints of every kind.
func newTown(t testing.TB) *Sim {
	t.Helper()
	s := New(Options{})
	for _, p := range []hns.SetPolicy{leaf("db", "10.0.0.5"), leaf("front"), leaf("lonely", "10.9.0.0/16"), leaf("web", "10.0.0.4"), list("group", "web")} {
		require.NoError(t, s.PutSet(p))
	}
	at := func(id, addr string) SimEndpoint {
		return SimEndpoint{ID: id, Addrs: []netip.Addr{netip.MustParseAddr(addr)}}
	}
	one, away, elsewhere, born := at("ep-1", "10.0.0.4"), at("ep-away", "10.7.0.4"), at("ep-elsewhere", "10.8.0.4"), at("ep-new", "10.0.0.6")
	one.Policies = []hns.EndpointPolicy{
		hns.NewACLPolicy(allow(func(a *hns.ACL) { a.ID, a.LocalAddresses = "azure-acl-x.web", derivedID("front") })),
		{Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"]}`)},
	}
	away.Remote, elsewhere.Network, born.State = true, "other", Created
	for _, e := range []SimEndpoint{one, away, elsewhere, born} {
		require.NoError(t, s.CreateEndpoint(e))
	}
	return s
}

// contents returns everything that a node has.
func contents(s *Sim) []any { return []any{s.Sets(), s.Endpoints()} }

// derivedID returns the Id of a set of the tests.
func derivedID(name string) string { return hns.SetIDPrefix + name }

func leaf(name string, values ...string) hns.SetPolicy {
	return hns.SetPolicy{ID: derivedID(name), Name: name, Type: hns.IPSet, Values: values}
}

func list(name string, members ...string) hns.SetPolicy {
	p := hns.SetPolicy{ID: derivedID(name), Name: name, Type: hns.NestedIPSet}
	for _, m := range members {
		p.Values = append(p.Values, derivedID(m))
	}
	return p
}

// allow returns a good rule, changed.
func allow(change func(*hns.ACL)) hns.ACL {
	a := hns.ACL{
		ID: "azure-acl-x.test", Protocols: "6", Action: hns.Allow, Direction: hns.In,
		LocalAddresses: derivedID("web"), LocalPorts: "80", RuleType: hns.Switch, Priority: 222,
	}
	if change != nil {
		change(&a)
	}
	return a
}

type refusalTest struct {
	name   string
	want   *refusal
	kind   string // of the OpError
	id     string // of the OpError
	code   uint32
	class  error
	invoke func(t *testing.T, s *Sim) error
}

func modify(verb hns.Verb, sets ...hns.SetPolicy) func(*testing.T, *Sim) error {
	return func(t *testing.T, s *Sim) error { return s.ModifySets(t.Context(), verb, sets) }
}

func replace(policies ...hns.EndpointPolicy) func(*testing.T, *Sim) error {
	return func(t *testing.T, s *Sim) error { return s.ReplacePolicies(t.Context(), "ep-1", policies) }
}

// TestRefusals raises everything that HNS rejects, and each time nothing may
// have changed.
func TestRefusals(t *testing.T) {
	const test = "azure-acl-x.test"
	anyID := func(p hns.SetPolicy, id string) hns.SetPolicy { p.ID = id; return p }
	tests := []refusalTest{
		{"verb", unknownVerb, hns.KindSet, derivedID("new"), 0x803B000D, hns.ErrInvalid, modify("Refresh", leaf("new"))},
		{"no sets", emptyRequest, hns.KindNetwork, "", 0x803B000D, hns.ErrInvalid, modify(hns.Add)},
		{"no rules", emptyRequest, hns.KindNetwork, "ep-1", 0x803B000D, hns.ErrInvalid, func(t *testing.T, s *Sim) error {
			return s.AddACLs(t.Context(), "ep-1", nil)
		}},
		{"set type", unknownSetType, hns.KindSet, "a", 0x803B000E, hns.ErrInvalid, modify(hns.Add, hns.SetPolicy{ID: "a", Name: "a", Type: "ipset"})},
		{"two set types", mixedSetTypes, hns.KindSet, "one of 2", 0x803B000D, hns.ErrInvalid, modify(hns.Add, leaf("new"), list("newer", "web"))},
		{"no set id", badSetID, hns.KindSet, "", 0x803B000D, hns.ErrInvalid, modify(hns.Add, anyID(leaf("new"), ""))},
		{"comma in a set id", badSetID, hns.KindSet, "a,b", 0x803B000D, hns.ErrInvalid, modify(hns.Add, anyID(leaf("new"), "a,b"))},
		{"blank in a set id", badSetID, hns.KindSet, "a b", 0x803B000D, hns.ErrInvalid, modify(hns.Add, anyID(leaf("new"), "a b"))},
		{"address as set id", badSetID, hns.KindSet, "10.0.0.1", 0x803B000D, hns.ErrInvalid, modify(hns.Add, anyID(leaf("new"), "10.0.0.1"))},
		{"no set name", noSetName, hns.KindSet, "a", 0x803B000D, hns.ErrInvalid, modify(hns.Add, hns.SetPolicy{ID: "a", Type: hns.IPSet})},
		{"a set id twice", setIDTwice, hns.KindSet, "one of 2", 0x803B000D, hns.ErrInvalid, modify(hns.Update, leaf("web"), leaf("db"), leaf("web"))},
		{"name of another set", setNameTaken, hns.KindSet, "a", 0x803B000D, hns.ErrInvalid, modify(hns.Add, anyID(leaf("web"), "a"))},
		{"two sets of one name", setNameTaken, hns.KindSet, "one of 2", 0x803B000D, hns.ErrInvalid, modify(hns.Add, leaf("new"), anyID(leaf("new"), "a"))},
		{"renamed set", setRenamed, hns.KindSet, derivedID("web"), 0x803B000D, hns.ErrInvalid, modify(hns.Update, anyID(leaf("new"), derivedID("web")))},
		{"set of the other type", setTypeChanged, hns.KindSet, derivedID("web"), 0x803B000E, hns.ErrInvalid, modify(hns.Update, list("web", "db"))},
		{"remove of the other type", setTypeChanged, hns.KindSet, derivedID("lonely"), 0x803B000E, hns.ErrInvalid, modify(hns.Remove, list("lonely"))},
		{"set added twice", setExists, hns.KindSet, "one of 2", 0x803B0012, hns.ErrAlreadyExists, modify(hns.Add, leaf("new"), leaf("web"))},
		{"missing set removed", setMissing, hns.KindSet, "one of 2", 0x803B0008, hns.ErrNotFound, modify(hns.Remove, leaf("lonely"), leaf("gone"))},
		{"set of a list removed", setInUse, hns.KindSet, "one of 2", 0x803B002C, hns.ErrInUse, modify(hns.Remove, leaf("lonely"), leaf("web"))},
		{"set of a rule removed", setInUse, hns.KindSet, derivedID("front"), 0x803B002C, hns.ErrInUse, modify(hns.Remove, leaf("front"))},
		{"blank in a value", badSetValue, hns.KindSet, derivedID("web"), 0x803B000D, hns.ErrInvalid, modify(hns.Update, leaf("web", "10.0.0.4 "))},
		{"empty value", badSetValue, hns.KindSet, derivedID("web"), 0x803B000D, hns.ErrInvalid, modify(hns.Update, leaf("web", ""))},
		{"value that is no address", badSetValue, hns.KindSet, "one of 2", 0x803B000D, hns.ErrInvalid, modify(hns.Add, leaf("new", "10.0.0.1"), leaf("newer", "10.0.0.256"))},
		{"value with host bits", badSetValue, hns.KindSet, derivedID("web"), 0x803B000D, hns.ErrInvalid, modify(hns.Update, leaf("web", "10.0.0.4/24"))},
		{"value with a long mask", badSetValue, hns.KindSet, derivedID("web"), 0x803B000D, hns.ErrInvalid, modify(hns.Update, leaf("web", "10.0.0.0/33"))},
		{"IPv6 value", ipv6SetValue, hns.KindSet, derivedID("web"), 0x803B001E, hns.ErrInvalid, modify(hns.Update, leaf("web", "fd00::1"))},
		{"IPv6 block", ipv6SetValue, hns.KindSet, derivedID("web"), 0x803B001E, hns.ErrInvalid, modify(hns.Update, leaf("web", "fd00::/64"))},
		{"list added with a missing member", memberMissing, hns.KindSet, derivedID("new"), 0x803B0008, hns.ErrNotFound, modify(hns.Add, list("new", "web", "gone"))},
		{"list updated with a missing member", memberMissing, hns.KindSet, derivedID("group"), 0x803B0008, hns.ErrNotFound, modify(hns.Update, list("group", "web", "gone"))},
		{"list in a list", memberNested, hns.KindSet, derivedID("new"), 0x803B000D, hns.ErrInvalid, modify(hns.Add, list("new", "group"))},
		{"list in itself", memberSelf, hns.KindSet, derivedID("group"), 0x803B000D, hns.ErrInvalid, modify(hns.Update, list("group", "group"))},
		{"new list in itself", memberSelf, hns.KindSet, derivedID("new"), 0x803B000D, hns.ErrInvalid, modify(hns.Add, list("new", "new"))},

		{"missing endpoint read", endpointMissing, hns.KindEndpoint, "ep-9", 0x803B0002, hns.ErrNotFound, func(t *testing.T, s *Sim) error {
			_, err := s.GetEndpoint(t.Context(), "ep-9")
			return err
		}},
		{"missing endpoint", endpointMissing, hns.KindEndpoint, "ep-9", 0x803B0002, hns.ErrNotFound, func(t *testing.T, s *Sim) error {
			return s.AddACLs(t.Context(), "ep-9", []hns.ACL{allow(nil)})
		}},
		{"missing endpoint replaced", endpointMissing, hns.KindEndpoint, "ep-9", 0x803B0002, hns.ErrNotFound, func(t *testing.T, s *Sim) error {
			return s.ReplacePolicies(t.Context(), "ep-9", nil)
		}},
		{"endpoint not attached", endpointNotAttached, hns.KindEndpoint, "ep-new", 0x803B000C, hns.ErrInvalid, func(t *testing.T, s *Sim) error {
			return s.AddACLs(t.Context(), "ep-new", []hns.ACL{allow(nil)})
		}},
		{"remote endpoint", endpointRemote, hns.KindEndpoint, "ep-away", 0x803B000F, hns.ErrInvalid, func(t *testing.T, s *Sim) error {
			return s.ReplacePolicies(t.Context(), "ep-away", nil)
		}},
		{"rule of another network", aclSetMissing, hns.KindSet, derivedID("web"), 0x803B0008, hns.ErrNotFound, func(t *testing.T, s *Sim) error {
			return s.AddACLs(t.Context(), "ep-elsewhere", []hns.ACL{allow(nil)})
		}},

		{"policy without type", noPolicyType, hns.KindACL, "", 0x803B000E, hns.ErrInvalid, replace(hns.EndpointPolicy{Settings: []byte(`{}`)})},
		{"broken settings", badSettings, hns.KindACL, "", 0x803B001B, hns.ErrInvalid, replace(hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte(`{`)})},
		{"settings that are no object", badSettings, hns.KindACL, "", 0x803B001B, hns.ErrInvalid, replace(hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte(`1`)})},
		{"settings of the wrong type", badSettings, hns.KindACL, "", 0x803B001B, hns.ErrInvalid, replace(hns.EndpointPolicy{Type: "ACL", Settings: []byte(`{"Priority":70000}`)})},
	}

	// What is refused of a rule is refused by Add and by Update.
	many := strings.TrimSuffix(strings.Repeat("10.0.0.1,", hns.MaxAddressesPerACL+1), ",")
	for _, bad := range []struct {
		name   string
		want   *refusal
		code   uint32
		change func(*hns.ACL)
	}{
		{"action", unknownAction, 0x803B000D, func(a *hns.ACL) { a.Action = "allow" }},
		{"no action", unknownAction, 0x803B000D, func(a *hns.ACL) { a.Action = "" }},
		{"direction", unknownDirection, 0x803B000D, func(a *hns.ACL) { a.Direction = "Both" }},
		{"rule type", unknownRuleType, 0x803B000D, func(a *hns.ACL) { a.RuleType = "Port" }},
		{"Switch rule of priority 0", switchWithoutPriority, 0x803B000D, func(a *hns.ACL) { a.Priority = 0 }},
		{"Host rule with a priority", hostWithPriority, 0x803B000D, func(a *hns.ACL) { a.RuleType = hns.Host }},
		{"protocol by name", badProtocol, 0x803B000D, func(a *hns.ACL) { a.Protocols = "TCP" }},
		{"protocol too great", badProtocol, 0x803B000D, func(a *hns.ACL) { a.Protocols = "257" }},
		{"protocol with a zero", badProtocol, 0x803B000D, func(a *hns.ACL) { a.Protocols = "06" }},
		{"two protocols", severalProtocols, 0x803B000D, func(a *hns.ACL) { a.Protocols = "6,17" }},
		{"ports of any protocol", portsOfAnyProtocol, 0x803B000D, func(a *hns.ACL) { a.Protocols = "" }},
		{"ports of any protocol, as read back", portsOfAnyProtocol, 0x803B000D, func(a *hns.ACL) { a.Protocols = "256" }},
		{"ports of ICMP", portsOfAnyProtocol, 0x803B000D, func(a *hns.ACL) { a.Protocols, a.LocalPorts, a.RemotePorts = "1", "", "7" }},
		{"port 0", badPort, 0x803B000D, func(a *hns.ACL) { a.LocalPorts = "0" }},
		{"port too great", badPort, 0x803B000D, func(a *hns.ACL) { a.LocalPorts = "65536" }},
		{"port with a sign", badPort, 0x803B000D, func(a *hns.ACL) { a.RemotePorts = "+80" }},
		{"ports with a blank", badPort, 0x803B000D, func(a *hns.ACL) { a.LocalPorts = "80, 81" }},
		{"range backwards", badPort, 0x803B000D, func(a *hns.ACL) { a.LocalPorts = "81-80" }},
		{"range without end", badPort, 0x803B000D, func(a *hns.ACL) { a.LocalPorts = "81-" }},
		{"Any as address", badAddress, 0x803B000D, func(a *hns.ACL) { a.RemoteAddresses = "Any" }},
		{"empty address", badAddress, 0x803B000D, func(a *hns.ACL) { a.RemoteAddresses = "10.0.0.1,," }},
		{"blank in addresses", badAddress, 0x803B000D, func(a *hns.ACL) { a.RemoteAddresses = "10.0.0.1, 10.0.0.2" }},
		{"block with host bits", badAddress, 0x803B000D, func(a *hns.ACL) { a.RemoteAddresses = "10.0.0.1/8" }},
		{"IPv6 address", ipv6Address, 0x803B001E, func(a *hns.ACL) { a.RemoteAddresses = "10.0.0.1,fd00::1" }},
		{"literals and sets", mixedAddresses, 0x803B000D, func(a *hns.ACL) { a.LocalAddresses += ",10.0.0.1" }},
		{"literals and a missing set", mixedAddresses, 0x803B000D, func(a *hns.ACL) { a.RemoteAddresses = "10.0.0.1," + derivedID("gone") }},
		{"too many addresses", tooManyAddresses, 0x803B000D, func(a *hns.ACL) { a.LocalAddresses, a.RemoteAddresses = "", many }},
	} {
		a := allow(bad.change)
		tests = append(tests,
			refusalTest{bad.name + ", added", bad.want, hns.KindACL, test, bad.code, hns.ErrInvalid, func(t *testing.T, s *Sim) error {
				return s.AddACLs(t.Context(), "ep-1", []hns.ACL{allow(nil), a})
			}},
			refusalTest{bad.name + ", replaced", bad.want, hns.KindACL, test, bad.code, hns.ErrInvalid,
				replace(hns.NewACLPolicy(allow(nil)), hns.NewACLPolicy(a))},
		)
	}
	missing := allow(func(a *hns.ACL) { a.LocalAddresses = derivedID("gone") })
	tests = append(tests,
		refusalTest{"missing set, added", aclSetMissing, hns.KindSet, derivedID("gone"), 0x803B0008, hns.ErrNotFound, func(t *testing.T, s *Sim) error {
			return s.AddACLs(t.Context(), "ep-1", []hns.ACL{missing})
		}},
		refusalTest{"missing set, replaced", aclSetMissing, hns.KindSet, "one of 2", 0x803B0008, hns.ErrNotFound,
			replace(hns.NewACLPolicy(allow(nil)), hns.NewACLPolicy(missing))},
	)

	raised := map[*refusal]bool{}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newTown(t)
			before := contents(s)
			err := test.invoke(t, s)
			var op *hns.OpError
			require.ErrorAs(t, err, &op)
			var why *refused
			require.ErrorAs(t, err, &why)
			require.Equal(t, test.want.text, why.text)
			require.Same(t, test.want, why.refusal)
			require.ErrorIs(t, err, test.class)
			require.Equal(t, test.code, op.Code)
			require.Equal(t, test.kind, op.Kind)
			require.Equal(t, test.id, op.ID)
			require.False(t, hns.OutcomeUnknown(err))
			require.Equal(t, before, contents(s), "a refused request changed something")
			raised[why.refusal] = true
		})
	}
	for _, r := range refusals {
		require.True(t, raised[r], "never raised: %s", r.text)
	}
}

func TestForeignHandIsRefusedToo(t *testing.T) {
	s := newTown(t)
	before := contents(s)
	addr := netip.MustParseAddr("10.0.0.9")
	for name, test := range map[string]struct {
		err  error
		want error
	}{
		"set":                     {s.PutSet(leaf("web", "nowhere")), hns.ErrInvalid},
		"used set":                {s.DropSet(derivedID("web")), hns.ErrInUse},
		"missing set":             {s.DropSet(derivedID("gone")), hns.ErrNotFound},
		"rule":                    {s.SetPolicies("ep-1", []hns.EndpointPolicy{{Type: "ACL", Settings: []byte(`{}`)}}), hns.ErrInvalid},
		"missing endpoint":        {s.SetState("ep-9", Attached), hns.ErrNotFound},
		"delete missing endpoint": {s.DeleteEndpoint("ep-9"), hns.ErrNotFound},
		"endpoint twice":          {s.CreateEndpoint(SimEndpoint{ID: "ep-1", Addrs: []netip.Addr{addr}}), hns.ErrAlreadyExists},
		"endpoint without ID":     {s.CreateEndpoint(SimEndpoint{Addrs: []netip.Addr{addr}}), hns.ErrInvalid},
		"endpoint without family": {s.CreateEndpoint(SimEndpoint{ID: "ep-9", Addrs: []netip.Addr{{}}}), hns.ErrInvalid},
		"endpoint with bad rule": {s.CreateEndpoint(SimEndpoint{ID: "ep-9", Policies: []hns.EndpointPolicy{
			hns.NewACLPolicy(allow(func(a *hns.ACL) { a.LocalAddresses = derivedID("gone") })),
		}}), hns.ErrNotFound},
	} {
		require.ErrorIs(t, test.err, test.want, name)
	}
	require.Equal(t, before, contents(s))
	require.Empty(t, s.Counts(), "the hand of others is no call of ours")
}

func TestReferencesAreExact(t *testing.T) {
	s := New(Options{})
	long := hns.SetPolicy{ID: "azure-npm-12", Name: "long", Type: hns.IPSet}
	short := hns.SetPolicy{ID: "azure-npm-1", Name: "short", Type: hns.IPSet}
	require.NoError(t, s.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{long, short}))
	require.NoError(t, s.CreateEndpoint(SimEndpoint{ID: "ep-1"}))
	require.NoError(t, s.AddACLs(t.Context(), "ep-1", []hns.ACL{allow(func(a *hns.ACL) { a.LocalAddresses = long.ID })}))
	require.NoError(t, s.ModifySets(t.Context(), hns.Remove, []hns.SetPolicy{short}), "an Id that begins like one in use")
	err := s.ModifySets(t.Context(), hns.Remove, []hns.SetPolicy{long})
	require.True(t, errors.Is(err, hns.ErrInUse))
}

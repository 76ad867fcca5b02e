package hns

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// versionedEndpoint is one of each thing that a version speaks of.
func versionedEndpoint() Endpoint {
	rule := ACL{
		ID: "azure-acl-x.web", Protocols: "6", Action: Allow, Direction: In, LocalAddresses: "azure-npm-1",
		RemoteAddresses: "10.0.0.0/8", LocalPorts: "80", RemotePorts: "81", RuleType: Switch, Priority: PriorityAllow,
	}
	twin := rule
	twin.LocalPorts = "443"
	return Endpoint{
		ID:    "ep",
		Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		Policies: []EndpointPolicy{
			NewACLPolicy(rule),
			NewACLPolicy(twin),
			{Type: "OutBoundNAT", Settings: []byte(`{"Exceptions": ["10.0.0.0/8", "10.1.0.0/16"], "VIP": 18446744073709551615}`)},
			{Type: "Odd", Settings: []byte(`no JSON`)},
		},
	}
}

// byOthers is a rule of another program that matches everything behind all of ours.
func byOthers(action ActionType, dir DirectionType) EndpointPolicy {
	return NewACLPolicy(ACL{Action: action, Direction: dir, RuleType: Switch, Priority: 65500})
}

// TestVersionIsOfTheMeaning: what HNS may show differently from read to read does
// not count.
func TestVersionIsOfTheMeaning(t *testing.T) {
	e := versionedEndpoint()
	want := e.Basis()
	require.NotEmpty(t, want)
	rapid.Check(t, func(t *rapid.T) {
		again := versionedEndpoint()
		again.Policies = rapid.Permutation(again.Policies).Draw(t, "policies")
		again.Addrs = rapid.Permutation(again.Addrs).Draw(t, "addresses")
		require.Equal(t, want, again.Basis())
	})
	for name, change := range map[string]func(*Endpoint){
		"fields of HNS's own in a rule": func(e *Endpoint) {
			e.Policies[0].Settings = append([]byte(`{"Scope":0,"Type":"ACL",`), e.Policies[0].Settings[1:]...)
		},
		"the id, which is no state": func(e *Endpoint) { e.ID = "other" },
		"policies of others":        func(e *Endpoint) { e.Policies = e.Policies[:2] },
	} {
		same := versionedEndpoint()
		change(&same)
		require.Equal(t, want, same.Basis(), name)
	}
	anyProtocol := ACL{ID: ACLIDPrefix + "x", Action: Block, Direction: In, Protocols: AnyProtocol}
	spelt := anyProtocol
	spelt.Protocols = ""
	require.Equal(t, Basis(nil, []ACL{spelt}, Defaults{}), Basis(nil, []ACL{anyProtocol}, Defaults{}))
}

// TestVersionChanges: everything that means something counts, every field of a
// rule included.
func TestVersionChanges(t *testing.T) {
	seen := map[Version]string{versionedEndpoint().Basis(): "the first"}
	distinct := func(name string, e Endpoint) {
		t.Helper()
		v := e.Basis()
		require.NotContains(t, seen, v, "%s gives the version of %s", name, seen[v])
		seen[v] = name
	}
	for i := range reflect.TypeFor[ACL]().NumField() {
		e := versionedEndpoint()
		a, err := e.Policies[0].ACL()
		require.NoError(t, err)
		if f := reflect.ValueOf(&a).Elem().Field(i); f.Kind() == reflect.String {
			f.SetString(f.String() + "9")
		} else {
			f.SetUint(f.Uint() + 1)
		}
		e.Policies[0] = NewACLPolicy(a)
		distinct(reflect.TypeFor[ACL]().Field(i).Name, e)
	}
	for name, change := range map[string]func(*Endpoint){
		"a rule less":      func(e *Endpoint) { e.Policies = e.Policies[1:] },
		"a rule twice":     func(e *Endpoint) { e.Policies = append(e.Policies, e.Policies[0]) },
		"a default in":     func(e *Endpoint) { e.Policies = append(e.Policies, byOthers(Allow, In)) },
		"a default out":    func(e *Endpoint) { e.Policies = append(e.Policies, byOthers(Allow, Out)) },
		"closed by others": func(e *Endpoint) { e.Policies = append(e.Policies, byOthers(Block, In)) },
		"an address less":  func(e *Endpoint) { e.Addrs = e.Addrs[:1] },
		"an address more":  func(e *Endpoint) { e.Addrs = append(e.Addrs, netip.MustParseAddr("10.0.0.2")) },
		"nothing":          func(e *Endpoint) { *e = Endpoint{} },
		"fields run together": func(e *Endpoint) {
			e.Policies = []EndpointPolicy{NewACLPolicy(ACL{ID: "azure-acl-x", LocalPorts: "80", RemotePorts: "1"})}
		},
		"fields run together 2": func(e *Endpoint) {
			e.Policies = []EndpointPolicy{NewACLPolicy(ACL{ID: "azure-acl-x", LocalPorts: "8", RemotePorts: "01"})}
		},
	} {
		e := versionedEndpoint()
		change(&e)
		distinct(name, e)
	}
}

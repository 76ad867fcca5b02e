package hnsd

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// shown is what a client needs of a network or an endpoint.
type shown struct {
	ID, Name             string
	HostComputeNetwork   string
	HostComputeNamespace string
	Type                 string
	Policies             []hns.EndpointPolicy
	IPConfigurations     []ipConfig `json:"IpConfigurations"`
	Flags                uint32
	State                uint16
	SchemaVersion        struct{ Major, Minor int }
}

// sets returns the SetPolicies among the policies.
func (v shown) sets() []hns.EndpointPolicy {
	return slices.DeleteFunc(slices.Clone(v.Policies), func(p hns.EndpointPolicy) bool { return p.Type != policyTypeSet })
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{"15.0": {}, "11.10": {Major: 11, Minor: 10}} {
		s := New(o)
		a, err := s.answer(t.Context(), request{op: opOf("HNSCall"), text: [2]string{"GET /globals/version"}})
		require.NoError(t, err)
		major, minor, _ := strings.Cut(want, ".")
		require.JSONEq(t, fmt.Sprintf(`{"Success":true,"Output":{"Major":%s,"Minor":%s}}`, major, minor), *a.output)
	}
	a, err := New(Options{}).answer(t.Context(), request{op: opOf("HNSCall"), text: [2]string{"GET /networks"}})
	require.NoError(t, err)
	require.Contains(t, *a.output, `"Success":false`)
}

func TestSetsOfANetwork(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{Network: "Calico"})
	require.Empty(t, c.ids("HcnEnumerateNetworks", where(t, `{"Name":"calico"}`)), "names are case sensitive")
	ids := c.ids("HcnEnumerateNetworks", where(t, `{"Name":"Calico"}`))
	require.Len(t, ids, 1)
	require.Equal(t, ids, c.ids("HcnEnumerateNetworks", where(t, fmt.Sprintf(`{"ID":%q}`, strings.ToLower(ids[0].String())))))
	h := c.open("Network", ids[0])

	var n shown
	c.query("Network", h, &n)
	require.Equal(t, ids[0].String(), n.ID)
	require.Equal(t, "Calico", n.Name)
	require.Equal(t, "L2Bridge", n.Type)
	require.Equal(t, 2, n.SchemaVersion.Major)
	require.Empty(t, n.sets())
	require.NotEmpty(t, n.Policies, "there are policies that are no sets")

	web := setPolicy("azure-npm-web", hns.IPSet, "10.0.0.4,10.0.0.5")
	empty := setPolicy("azure-npm-empty", hns.IPSet, "")
	list := setPolicy("azure-npm-list", hns.NestedIPSet, "azure-npm-web,azure-npm-empty")
	change := func(verb hns.Verb, list ...hns.EndpointPolicy) {
		c.do("HcnModifyNetwork", request{handle: h, text: [2]string{modify(verb, list...)}})
	}
	change(hns.Add, web, empty)
	change(hns.Add, list)
	c.query("Network", h, &n)
	require.Empty(t, cmp.Diff([]hns.EndpointPolicy{empty, list, web}, n.sets()))
	require.Empty(t, cmp.Diff([]hns.SetPolicy{
		{ID: "azure-npm-empty", Name: "azure-npm-empty", Type: hns.IPSet},
		{ID: "azure-npm-list", Name: "azure-npm-list", Type: hns.NestedIPSet, Values: []string{"azure-npm-web", "azure-npm-empty"}},
		{ID: "azure-npm-web", Name: "azure-npm-web", Type: hns.IPSet, Values: []string{"10.0.0.4", "10.0.0.5"}},
	}, s.Sim().Sets()))

	web = setPolicy("azure-npm-web", hns.IPSet, "10.0.0.6")
	change(hns.Update, web)
	change(hns.Remove, list)
	change(hns.Remove, empty)
	c.query("Network", h, &n)
	require.Empty(t, cmp.Diff([]hns.EndpointPolicy{web}, n.sets()))
	c.do("HcnCloseNetwork", request{handle: h})
}

func TestRulesOfAnEndpoint(t *testing.T) {
	t.Parallel()
	foreign := hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"],"Remark":"a<b>&c"}`)}
	s, c := start(t, Options{Foreign: []hns.EndpointPolicy{foreign}})
	id := pod(t, s)
	h := c.open("Endpoint", id)

	read := func() (e shown) {
		c.query("Endpoint", h, &e)
		return e
	}
	e := read()
	require.Equal(t, id.String(), e.ID)
	require.Equal(t, s.own.id.String(), e.HostComputeNetwork)
	require.Equal(t, uint16(3), e.State)
	require.Zero(t, e.Flags)
	require.Len(t, e.IPConfigurations, 1)
	require.Equal(t, "10.0.0.4", e.IPConfigurations[0].IPAddress)
	require.Empty(t, cmp.Diff([]hns.EndpointPolicy{foreign}, e.Policies), "not a byte is changed")

	rule := hns.NewACLPolicy(hns.ACL{ID: "azure-acl-a", Action: hns.Block, Direction: hns.In, Priority: 3000, RuleType: hns.Switch})
	change := func(verb hns.Verb, list ...hns.EndpointPolicy) {
		c.do("HcnModifyEndpoint", request{handle: h, text: [2]string{modify(verb, list...)}})
	}
	change(hns.Add, rule)
	e = read()
	require.Len(t, e.Policies, 2)
	require.Contains(t, string(e.Policies[1].Settings), `"Protocols":"256"`, "as HNS reads it back")
	change(hns.Update, e.Policies...)
	require.Empty(t, cmp.Diff(e.Policies, read().Policies), "what was read can be written")
	change(hns.Update, foreign)
	require.Empty(t, cmp.Diff([]hns.EndpointPolicy{foreign}, read().Policies))
	c.do("HcnModifyEndpoint", request{handle: h, text: [2]string{`{"ResourceType":"Policy","RequestType":"Update","Settings":{}}`}})
	require.Empty(t, read().Policies, "this is how an endpoint is cleared")

	c.do("HcnCloseEndpoint", request{handle: h})
	c.do("HcnDeleteEndpoint", request{id: id})
	require.Empty(t, s.Sim().Endpoints())
}

func TestEndpointFilters(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	name := func(n int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012X", n) }
	for i, e := range []hnssim.NewEndpoint{
		{},
		{State: hnssim.Attached},
		{State: hnssim.Created},
		{Remote: true},
		{Network: "other"},
		{ID: "abcdef00-0000-0000-0000-00000000000a", State: hnssim.Degraded},
	} {
		if e.ID == "" {
			e.ID = name(i)
		}
		e.Addrs = []netip.Addr{netip.MustParseAddr("10.0.0.4")}
		require.NoError(t, s.Sim().CreateEndpoint(e))
	}
	const lower = "ABCDEF00-0000-0000-0000-00000000000A"
	network := s.own.id.String()
	for filter, want := range map[string][]string{
		`{}`:                       {name(0), name(1), name(2), name(3), name(4), lower},
		`{"State":3}`:              {name(0), name(3), name(4)},
		`{"State":2}`:              {name(1)},
		`{"ID":"` + name(2) + `"}`: {name(2)},
		`{"ID":"` + lower + `"}`:   {lower},
		`{"VirtualNetwork":` + fmt.Sprintf("%q", strings.ToLower(network)) + `}`: {name(0), name(1), name(2), name(3), lower},
		`{"VirtualNetwork":"` + network + `","State":3}`:                         {name(0), name(3)},
		`{"State":7}`:   {},
		`{"Name":"no"}`: {},
	} {
		got := []string{}
		for _, id := range c.ids("HcnEnumerateEndpoints", where(t, filter)) {
			got = append(got, id.String())
		}
		require.ElementsMatch(t, want, got, filter)
	}
	var e shown
	c.query("Endpoint", c.open("Endpoint", mustGUID(t, lower)), &e)
	require.Equal(t, strings.ToLower(lower), e.ID, "the ID is shown as it was given")
	require.NoError(t, s.Sim().CreateEndpoint(hnssim.NewEndpoint{ID: "ep-1"}))
	c.refused(codeInvalidArgument, "HcnEnumerateEndpoints", request{text: [2]string{allQuery}})
}

// The life of a pod as a fixture on Windows makes it.
func TestEndpointLife(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{Foreign: hnssim.DefaultForeign()})
	net := c.do("HcnCreateNetwork", request{text: [2]string{`{"Name":"mine","Type":"Overlay","SchemaVersion":{"Major":2,"Minor":0}}`}}).handle
	var n shown
	c.query("Network", net, &n)
	require.Equal(t, "Overlay", n.Type)
	netID := mustGUID(t, n.ID)
	require.Equal(t, []guid{s.own.id, netID}, c.ids("HcnEnumerateNetworks", allQuery))

	create := func(more string) (uint64, guid) {
		h := c.do("HcnCreateEndpoint", request{handle: net, text: [2]string{
			`{"Name":"pod","IpConfigurations":[{"IpAddress":"10.0.0.4","PrefixLength":16}],"SchemaVersion":{"Major":2,"Minor":0}` + more + `}`,
		}}).handle
		var e shown
		c.query("Endpoint", h, &e)
		require.Equal(t, netID.String(), e.HostComputeNetwork)
		require.Empty(t, e.Policies, "the policies of the node's own CNI are not here")
		return h, mustGUID(t, e.ID)
	}
	h, pod := create("")
	_, remote := create(`,"Flags":1`)
	state := func() (e shown) {
		c.query("Endpoint", h, &e)
		return e
	}
	require.Equal(t, uint16(1), state().State)
	require.Equal(t, []guid{remote}, c.ids("HcnEnumerateEndpoints", where(t, `{"State":3}`)))

	space := c.do("HcnCreateNamespace", request{text: [2]string{`{"Type":"Host","SchemaVersion":{"Major":2,"Minor":0}}`}}).handle
	spaces := c.ids("HcnEnumerateNamespaces", allQuery)
	require.Len(t, spaces, 1)
	attach := func(verb string) request {
		return request{handle: space, text: [2]string{fmt.Sprintf(`{"ResourceType":"Endpoint","RequestType":%q,"Settings":{"EndpointId":%q}}`, verb, pod)}}
	}
	c.do("HcnModifyNamespace", attach("Add"))
	require.Equal(t, uint16(3), state().State)
	require.Equal(t, spaces[0].String(), state().HostComputeNamespace)
	require.ElementsMatch(t, []guid{pod, remote}, c.ids("HcnEnumerateEndpoints", where(t, `{"State":3}`)))
	require.ElementsMatch(t, []guid{pod, remote}, c.ids("HcnEnumerateEndpoints", where(t, `{"Name":"pod"}`)))
	var view namespaceView
	c.query("Namespace", c.open("Namespace", spaces[0]), &view)
	require.Equal(t, "Host", view.Type)
	require.Len(t, view.Resources, 1)
	require.Equal(t, pod.String(), view.Resources[0].Data.ID)

	c.refused(codeEndpointAttached, "HcnModifyNamespace", attach("Add"))
	c.refused(codeHasReferences, "HcnDeleteNamespace", request{id: spaces[0]})
	c.refused(codeHasReferences, "HcnDeleteNetwork", request{id: netID})
	c.do("HcnModifyNamespace", attach("Remove"))
	require.Equal(t, uint16(4), state().State)
	c.refused(codeEndpointNotFound, "HcnModifyNamespace", attach("Remove"))
	c.do("HcnModifyNamespace", attach("Add"))
	c.do("HcnDeleteEndpoint", request{id: pod})
	c.refused(codeEndpointNotFound, "HcnQueryEndpointProperties", request{handle: h, text: [2]string{allQuery}})
	c.do("HcnDeleteNamespace", request{id: spaces[0]})
	c.do("HcnDeleteEndpoint", request{id: remote})
	c.do("HcnDeleteNetwork", request{id: netID})
	c.refused(codeNetworkNotFound, "HcnQueryNetworkProperties", request{handle: net, text: [2]string{allQuery}})
	require.Equal(t, []guid{s.own.id}, c.ids("HcnEnumerateNetworks", allQuery))
}

func TestChosenIDs(t *testing.T) {
	t.Parallel()
	_, c := start(t, Options{})
	arg, text := guidOf("argument"), guidOf("text")
	settings := fmt.Sprintf(`{"Name":%%q,"ID":%q}`, text)
	c.do("HcnCreateNetwork", request{id: arg, text: [2]string{fmt.Sprintf(settings, "one")}})
	c.do("HcnCreateNetwork", request{text: [2]string{fmt.Sprintf(settings, "two")}})
	require.Equal(t, []guid{arg, text}, c.ids("HcnEnumerateNetworks", allQuery)[1:])
	c.refused(codeNetworkExists, "HcnCreateNetwork", request{id: arg, text: [2]string{`{"Name":"three"}`}})
	c.refused(codeNetworkExists, "HcnCreateNetwork", request{text: [2]string{`{"Name":"one"}`}})
	c.do("HcnCreateNamespace", request{id: arg, text: [2]string{`{}`}})
	c.refused(codeInvalidArgument, "HcnCreateNamespace", request{id: arg, text: [2]string{`{}`}})
}

func TestHiddenNetwork(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	id := pod(t, s)
	s.HideNetwork(true)
	require.Empty(t, c.ids("HcnEnumerateNetworks", allQuery))
	require.Empty(t, c.ids("HcnEnumerateEndpoints", allQuery))
	c.refused(codeNetworkNotFound, "HcnOpenNetwork", request{id: s.own.id})
	c.refused(codeEndpointNotFound, "HcnOpenEndpoint", request{id: id})
	s.HideNetwork(false)
	require.Equal(t, []guid{s.own.id}, c.ids("HcnEnumerateNetworks", allQuery))
	c.open("Endpoint", id)
}

func TestCounts(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	for range 3 {
		c.ids("HcnEnumerateNetworks", allQuery)
	}
	c.refused(codeNetworkNotFound, "HcnOpenNetwork", request{id: guidOf("no")})
	require.Equal(t, map[string]int{"HcnEnumerateNetworks": 3, "HcnOpenNetwork": 1}, s.Counts())
	s.ResetCounts()
	require.Empty(t, s.Counts())
}

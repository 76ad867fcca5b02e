package hnsd

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestPlugin: what a CNI plugin reads of a network and of the endpoint that it makes there.
func TestPlugin(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{Subnet: netip.MustParsePrefix("10.1.2.0/24")})
	network := c.open("Network", s.own.id)
	var n struct {
		Ipams []struct {
			Subnets []struct {
				IPAddressPrefix string `json:"IpAddressPrefix"`
			}
		}
	}
	c.query("Network", network, &n)
	require.Equal(t, "10.1.2.0/24", n.Ipams[0].Subnets[0].IPAddressPrefix)

	create := func(addr string) request {
		return request{handle: network, text: [2]string{`{"Name":"pod","IpConfigurations":[{"IpAddress":"` + addr + `"}],` +
			`"Routes":[{"NextHop":"10.1.2.2","DestinationPrefix":"0.0.0.0/0"}],"Dns":{"ServerList":["10.0.0.10"]},"MacAddress":"00-15-5D-00-00-07","SchemaVersion":{"Major":2,"Minor":0}}`}}
	}
	c.refused(codeAddressInvalid, "HcnCreateEndpoint", create("10.1.3.4"))
	var e struct {
		MacAddress string
		Routes     []struct{ NextHop string }
		DNS        struct{ ServerList []string } `json:"Dns"`
		IPs        []ipConfig                    `json:"IpConfigurations"`
	}
	c.query("Endpoint", c.do("HcnCreateEndpoint", create("10.1.2.4")).handle, &e)
	require.Equal(t, "00-15-5D-00-00-07", e.MacAddress)
	require.Equal(t, "10.1.2.2", e.Routes[0].NextHop)
	require.Equal(t, []string{"10.0.0.10"}, e.DNS.ServerList)
	require.Equal(t, []ipConfig{{"10.1.2.4", 24}}, e.IPs)
}

// TestSandbox: the namespace of a pod is there for its plugin, and goes when it is empty.
func TestSandbox(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	space := s.CreateNamespace()
	require.Equal(t, []guid{mustGUID(t, space)}, c.ids("HcnEnumerateNamespaces", allQuery))
	id := pod(t, s)
	attach := request{handle: c.open("Namespace", mustGUID(t, space)), text: [2]string{`{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":"` + id.String() + `"}}`}}
	c.do("HcnModifyNamespace", attach)
	require.ErrorContains(t, s.DeleteNamespace(space), "has 1 endpoints")
	c.do("HcnDeleteEndpoint", request{id: id})
	require.NoError(t, s.DeleteNamespace(space))
	require.ErrorContains(t, s.DeleteNamespace(space), "not found")
	require.ErrorContains(t, s.DeleteNamespace("ns"), "delete namespace")
}

// TestObserve: each call that may change a verdict is seen when it is done, one at a time,
// and before its answer.
func TestObserve(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rule := func(priority uint16) request {
		acl := hns.ACL{ID: "azure-acl-x", Action: hns.Block, Direction: hns.In, RuleType: hns.Switch, Priority: priority}
		return request{handle: b.endpoint, text: [2]string{modify(hns.Add, hns.NewACLPolicy(acl))}}
	}
	var mu sync.Mutex
	var calls []string
	rules := 0
	b.Observe(func(export string) {
		if !mu.TryLock() {
			t.Error("two are seen at once")
			return
		}
		defer mu.Unlock()
		calls = append(calls, export)
		rules = 0
		for _, e := range b.Sim().Endpoints() {
			ours, _ := hns.Endpoint{Policies: e.Policies}.Split()
			rules += len(ours)
		}
	})
	b.c.do("HcnModifyEndpoint", rule(3000))
	require.Equal(t, 1, rules)
	b.c.do("HcnModifyNetwork", b.addSet("azure-npm-x"))
	b.c.ids("HcnEnumerateEndpoints", allQuery)
	require.Equal(t, []string{"HcnModifyEndpoint", "HcnModifyNetwork"}, calls)

	var all sync.WaitGroup
	for i := range 8 {
		c := b.c.as(uint32(2 + i))
		handle := c.open("Endpoint", mustGUID(t, b.Sim().Endpoints()[0].ID))
		r := rule(uint16(3001 + i))
		r.handle = handle
		all.Go(func() { c.send("HcnModifyEndpoint", r); _, _ = c.receive() })
	}
	all.Wait()
	require.Equal(t, 9, rules)
	b.Observe(nil)
	b.c.do("HcnModifyEndpoint", rule(3100))
	require.Len(t, calls, 10)
}

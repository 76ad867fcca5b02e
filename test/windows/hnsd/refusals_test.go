package hnsd

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Codes of the simulator that cross the boundary.
const (
	codeInvalidEndpoint uint32 = 0x803B000C
	codeRemoteEndpoint  uint32 = 0x803B000F
)

func TestRefusedModifications(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	network := c.open("Network", s.own.id)
	endpoint := c.open("Endpoint", pod(t, s))
	set := setPolicy("azure-npm-web", hns.IPSet, "10.0.0.4")
	rule := func(settings string) hns.EndpointPolicy {
		return hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: []byte(settings)}
	}
	const block = `"Action":"Block","Direction":"In","Priority":3000`
	c.do("HcnModifyNetwork", request{handle: network, text: [2]string{modify(hns.Add, set)}})
	tests := map[string]struct {
		endpoint bool
		text     string
		code     uint32
	}{
		"no JSON":              {false, `{`, codeInvalidJSON},
		"two values":           {false, `{}{}`, codeInvalidJSON},
		"a key too many":       {false, `{"ResourceType":"Policy","RequestType":"Add","Settings":{},"More":1}`, codeInvalidJSON},
		"no settings":          {false, `{"ResourceType":"Policy","RequestType":"Add"}`, codeInvalidJSON},
		"another resource":     {false, `{"ResourceType":"DNS","RequestType":"Add","Settings":{}}`, codeRequestUnsupported},
		"no policies":          {false, modify(hns.Add), codeInvalidPolicy},
		"a verb of no one":     {false, modify("Replace", set), codeInvalidPolicy},
		"a set that is there":  {false, modify(hns.Add, set), codePolicyExists},
		"no such set":          {false, modify(hns.Remove, setPolicy("azure-npm-x", hns.IPSet, "")), codePolicyNotFound},
		"a blank in values":    {false, modify(hns.Update, setPolicy("azure-npm-web", hns.IPSet, "10.0.0.4, 10.0.0.5")), codeInvalidPolicy},
		"another policy":       {false, modify(hns.Add, hns.EndpointPolicy{Type: "VLAN", Settings: []byte(`{}`)}), codeInvalidPolicyType},
		"Type, not PolicyType": {false, modify(hns.Add, hns.EndpointPolicy{Type: policyTypeSet, Settings: []byte(`{"Id":"a","Name":"a","Type":"IPSET","Values":""}`)}), codeInvalidJSON},
		"ID, not Id":           {false, modify(hns.Add, hns.EndpointPolicy{Type: policyTypeSet, Settings: []byte(`{"ID":"a","Name":"a","PolicyType":"IPSET","Values":""}`)}), codeInvalidJSON},
		"values as a list":     {false, modify(hns.Add, hns.EndpointPolicy{Type: policyTypeSet, Settings: []byte(`{"Id":"a","Name":"a","PolicyType":"IPSET","Values":[]}`)}), codeInvalidJSON},

		"no rules":             {true, modify(hns.Add), codeInvalidPolicy},
		"rules taken away":     {true, modify(hns.Remove, rule(`{`+block+`}`)), codeRequestUnsupported},
		"another policy added": {true, modify(hns.Add, hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte(`{}`)}), codeRequestUnsupported},
		"a rule with ID":       {true, modify(hns.Add, rule(`{"ID":"azure-acl-a",`+block+`}`)), codeInvalidJSON},
		"a rule with a remark": {true, modify(hns.Update, rule(`{"Remark":"a",`+block+`}`)), codeInvalidJSON},
		"a priority in quotes": {true, modify(hns.Update, rule(`{"Action":"Block","Direction":"In","Priority":"3000"}`)), codeInvalidJSON},
		"a rule of a list":     {true, modify(hns.Update, rule(`[]`)), codeInvalidJSON},
		"a rule for no set":    {true, modify(hns.Add, rule(`{"LocalAddresses":"azure-npm-x",`+block+`}`)), codePolicyNotFound},
		"a rule for Any":       {true, modify(hns.Add, rule(`{"RemoteAddresses":"Any",`+block+`}`)), codeInvalidPolicy},
	}
	before := s.Sim().Dump()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := request{handle: network, text: [2]string{tt.text}}
			proc := "HcnModifyNetwork"
			if tt.endpoint {
				r.handle, proc = endpoint, "HcnModifyEndpoint"
			}
			c.refused(tt.code, proc, r)
			require.Equal(t, before, s.Sim().Dump())
		})
	}
}

func TestRefusedEndpoints(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	write := modify(hns.Update)
	for code, e := range map[uint32]hnssim.NewEndpoint{
		codeInvalidEndpoint: {State: hnssim.Created},
		codeRemoteEndpoint:  {Remote: true},
	} {
		id := guidOf(fmt.Sprint(code))
		e.ID = id.String()
		require.NoError(t, s.Sim().CreateEndpoint(e))
		c.refused(code, "HcnModifyEndpoint", request{handle: c.open("Endpoint", id), text: [2]string{write}})
	}
	gone := pod(t, s)
	h := c.open("Endpoint", gone)
	require.NoError(t, s.Sim().DeleteEndpoint(gone.String()))
	c.refused(codeEndpointNotFound, "HcnModifyEndpoint", request{handle: h, text: [2]string{write}})
	c.refused(codeEndpointNotFound, "HcnQueryEndpointProperties", request{handle: h, text: [2]string{allQuery}})
	c.refused(codeEndpointNotFound, "HcnOpenEndpoint", request{id: gone})
	c.refused(codeEndpointNotFound, "HcnDeleteEndpoint", request{id: gone})
	c.do("HcnCloseEndpoint", request{handle: h})

	network := c.open("Network", s.own.id)
	create := func(text string) request { return request{handle: network, text: [2]string{text}} }
	c.refused(codeInvalidJSON, "HcnCreateEndpoint", create(`{"Address":"10.0.0.4"}`))
	c.refused(codeInvalidIP, "HcnCreateEndpoint", create(`{"IpConfigurations":[{"IpAddress":"10.0.0"}]}`))
	c.refused(codeInvalidArgument, "HcnCreateEndpoint", create(`{"ID":"ep-1"}`))
	c.refused(codeInvalidPolicy, "HcnCreateEndpoint", create(`{"Policies":[{"Settings":{}}]}`))
}

func TestRefusedQueries(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	network := c.open("Network", s.own.id)
	endpoint := c.open("Endpoint", pod(t, s))
	c.do("HcnCreateNamespace", request{text: [2]string{`{}`}})
	space := c.open("Namespace", c.ids("HcnEnumerateNamespaces", allQuery)[0])
	for text, code := range map[string]uint32{
		``:                               codeInvalidJSON,
		`{"SchemaVersion":{"Major":1}}`:  codeInvalidJSON,
		where(t, `{`):                    codeInvalidJSON,
		where(t, `{"Name":1}`):           codeInvalidJSON,
		where(t, `{"State":"3"}`):        codeInvalidJSON,
		where(t, `{"MacAddress":"00"}`):  codeInvalidJSON,
		`{"Filter":{"Name":"azure"}}`:    codeInvalidJSON,
		allQuery + where(t, `{"ID":""}`): codeInvalidJSON,
	} {
		for _, proc := range []string{"HcnEnumerateNetworks", "HcnEnumerateEndpoints", "HcnEnumerateNamespaces"} {
			c.refused(code, proc, request{text: [2]string{text}})
		}
		c.refused(code, "HcnQueryNetworkProperties", request{handle: network, text: [2]string{text}})
		c.refused(code, "HcnQueryEndpointProperties", request{handle: endpoint, text: [2]string{text}})
		c.refused(code, "HcnQueryNamespaceProperties", request{handle: space, text: [2]string{text}})
	}
	c.refused(codeInvalidArgument, "HcnEnumerateNetworks", request{text: [2]string{where(t, `{"State":3}`)}})
	c.refused(codeInvalidArgument, "HcnEnumerateNamespaces", request{text: [2]string{where(t, `{"Name":"a"}`)}})
}

func TestRefusedObjects(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	no := guidOf("no")
	c.refused(codeNetworkNotFound, "HcnDeleteNetwork", request{id: no})
	c.refused(codeRequestUnsupported, "HcnDeleteNetwork", request{id: s.own.id})
	c.refused(codeInvalidJSON, "HcnCreateNetwork", request{text: [2]string{`{}`}})
	c.refused(codeNetworkExists, "HcnCreateNetwork", request{text: [2]string{`{"Name":"azure"}`}})
	c.refused(codeElementNotFound, "HcnOpenNamespace", request{id: no})
	c.refused(codeElementNotFound, "HcnDeleteNamespace", request{id: no})

	space := c.do("HcnCreateNamespace", request{id: no, text: [2]string{`{}`}}).handle
	change := func(text string) request { return request{handle: space, text: [2]string{text}} }
	c.refused(codeRequestUnsupported, "HcnModifyNamespace", change(`{"ResourceType":"Container","RequestType":"Add","Settings":{}}`))
	c.refused(codeRequestUnsupported, "HcnModifyNamespace", change(`{"ResourceType":"Endpoint","RequestType":"Update","Settings":{}}`))
	c.refused(codeInvalidJSON, "HcnModifyNamespace", change(`{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"Id":"x"}}`))
	c.refused(codeInvalidArgument, "HcnModifyNamespace", change(`{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":"x"}}`))
	c.refused(codeEndpointNotFound, "HcnModifyNamespace", change(`{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":"`+no.String()+`"}}`))
	c.do("HcnDeleteNamespace", request{id: no})
	c.refused(codeElementNotFound, "HcnQueryNamespaceProperties", change(allQuery))
}

// A fault of the simulator may name no more than a class.
func TestCodesOfClasses(t *testing.T) {
	t.Parallel()
	of := func(kind string, class error) error { return &hns.OpError{Kind: kind, Err: class} }
	for _, tt := range []struct {
		err  error
		code uint32
	}{
		{&hns.OpError{Code: 0x803B0017, Err: hns.ErrUnavailable}, 0x803B0017},
		{of(hns.KindNetwork, hns.ErrNotFound), codeNetworkNotFound},
		{of(hns.KindEndpoint, hns.ErrNotFound), codeEndpointNotFound},
		{of(hns.KindSet, hns.ErrNotFound), codePolicyNotFound},
		{of(hns.KindSet, hns.ErrAlreadyExists), codePolicyExists},
		{of(hns.KindSet, hns.ErrInUse), codeHasReferences},
		{of(hns.KindACL, hns.ErrInvalid), codeInvalidPolicy},
		{of(hns.KindACL, hns.ErrUnavailable), codeCallFailed},
		{of(hns.KindSet, hns.ErrConflict), codeFail},
		{hns.ErrNotFound, codeElementNotFound},
	} {
		require.Equal(t, tt.code, refusal(tt.err).code, "%v", tt.err)
	}
}

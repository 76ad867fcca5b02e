package hcsadapter

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/Microsoft/hcsshim/hcn"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// marshal encodes as hcsshim does.
func marshal(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// queries returns what each export is asked, as hcsshim's functions for the same
// purpose encode it (hcnnetwork.go, hcnendpoint.go).
func queries(t *testing.T, network string) map[string][]string {
	t.Helper()
	query := func(filter any) string {
		q := hcn.HostComputeQuery{SchemaVersion: hcn.SchemaVersion{Major: 2}, Flags: hcn.HostComputeQueryFlagsNone}
		if filter != nil {
			q.Filter = string(marshal(t, filter))
		}
		return string(marshal(t, q))
	}
	return map[string][]string{
		"HcnEnumerateNetworks":       {query(map[string]string{"Name": network})},
		"HcnQueryNetworkProperties":  {query(nil)},
		"HcnQueryEndpointProperties": {query(nil)},
		"HcnEnumerateEndpoints": {
			query(map[string]uint16{"State": 2}),
			query(map[string]uint16{"State": 3}),
			query(map[string]string{"ID": someID}),
		},
	}
}

// setRows are writes of sets.
func setRows(t *testing.T) []row {
	t.Helper()
	leaf := hns.SetPolicy{ID: "azure-npm-1", Name: "ns-x", Type: hns.IPSet, Values: []string{"10.0.0.1", "10.0.1.0/24"}}
	nested := hns.SetPolicy{ID: "azure-npm-2", Name: "nslabel-team:red", Type: hns.NestedIPSet, Values: []string{"azure-npm-1", "azure-npm-3"}}
	named := func(name string) []hns.SetPolicy {
		s := leaf
		s.Name = name
		return []hns.SetPolicy{s}
	}
	emptied := func(s hns.SetPolicy) []hns.SetPolicy {
		s.Values = nil
		return []hns.SetPolicy{s}
	}
	var rows []row
	for _, r := range []struct {
		name string
		verb hns.Verb
		sets []hns.SetPolicy
	}{
		{"addresses and blocks", hns.Add, []hns.SetPolicy{leaf}},
		{"update: addresses and blocks", hns.Update, []hns.SetPolicy{leaf}},
		{"remove: addresses and blocks", hns.Remove, []hns.SetPolicy{leaf}},
		{"nested", hns.Add, []hns.SetPolicy{nested}},
		{"update: nested", hns.Update, []hns.SetPolicy{nested}},
		{"remove: nested", hns.Remove, []hns.SetPolicy{nested}},
		{"empty", hns.Add, emptied(leaf)},
		{"update: empty", hns.Update, emptied(leaf)},
		{"remove: empty", hns.Remove, emptied(leaf)},
		{"update: nested and empty", hns.Update, emptied(nested)},
		{"several", hns.Add, []hns.SetPolicy{leaf, {ID: "azure-npm-3", Name: "ns-y", Type: hns.IPSet}}},
		{"name of a selector", hns.Add, named("podselector-app in (a, b),tier!=x,!y,{}/[a=b]")},
		{"name with quotes", hns.Add, named(`say "hi" \ to 'me'`)},
		{"name beyond ASCII", hns.Add, named("ü 世界 🚀 \u2028\u2029\t\x01\x7f\ufffd")},
		{"no name", hns.Add, named("")},
		{"long name", hns.Add, named(strings.Repeat("podlabel-key:value,", 500))},
		{"name with < > &", hns.Add, named("a < b && c > d")},
		{"update: name with < > &", hns.Update, named("<>&")},
		{"remove: name with < > &", hns.Remove, named("a&b")},
	} {
		var request hcn.PolicyNetworkRequest
		for _, s := range r.sets {
			request.Policies = append(request.Policies, hcn.NetworkPolicy{Type: hcn.SetPolicy, Settings: marshal(t, hcn.SetPolicySetting{
				Id: s.ID, Name: s.Name, Type: hcn.SetPolicyType(s.Type), Values: strings.Join(s.Values, ","),
			})})
		}
		rows = append(rows, row{
			name: "set: " + r.name, export: "HcnModifyNetwork",
			send: func(ctx context.Context, a *Adapter) error { return a.ModifySets(ctx, r.verb, r.sets) },
			theirs: string(marshal(t, hcn.ModifyNetworkSettingRequest{
				ResourceType: hcn.NetworkResourceTypePolicy, RequestType: hcn.RequestType(r.verb), Settings: marshal(t, request),
			})),
		})
	}
	return rows
}

// onEndpoint encodes a request for policies of an endpoint.
func onEndpoint(t *testing.T, verb hcn.RequestType, list ...hcn.EndpointPolicy) string {
	t.Helper()
	return string(marshal(t, hcn.ModifyEndpointSettingRequest{
		ResourceType: hcn.EndpointResourceTypePolicy, RequestType: verb,
		Settings: marshal(t, hcn.PolicyEndpointRequest{Policies: list}),
	}))
}

// namedRule is a rule as azure-container-networking sends it: hcsshim's, and its Id.
type namedRule struct {
	ID string `json:"Id"`
	hcn.AclPolicySetting
}

// theirs returns a rule of ours with hcsshim's types.
func theirs(r hns.ACL) namedRule {
	return namedRule{r.ID, hcn.AclPolicySetting{
		Protocols: r.Protocols, Action: hcn.ActionType(r.Action), Direction: hcn.DirectionType(r.Direction),
		LocalAddresses: r.LocalAddresses, RemoteAddresses: r.RemoteAddresses, LocalPorts: r.LocalPorts, RemotePorts: r.RemotePorts,
		RuleType: hcn.RuleType(r.RuleType), Priority: r.Priority,
	}}
}

// ruleRows are writes of rules of ours, each in an Add and in an Update.
func ruleRows(t *testing.T) []row {
	t.Helper()
	rule := func(set func(*hns.ACL)) []hns.ACL {
		r := hns.ACL{ID: "azure-acl-x.web", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: hns.PriorityAllow}
		set(&r)
		return []hns.ACL{r}
	}
	plain := rule(func(*hns.ACL) {})
	var rows []row
	for name, acls := range map[string][]hns.ACL{
		"plain":                    plain,
		"block":                    rule(func(r *hns.ACL) { r.Action, r.Priority = hns.Block, hns.PriorityBlock }),
		"out":                      rule(func(r *hns.ACL) { r.Direction = hns.Out }),
		"one set":                  rule(func(r *hns.ACL) { r.LocalAddresses = "azure-npm-1" }),
		"sets of both ends":        rule(func(r *hns.ACL) { r.LocalAddresses, r.RemoteAddresses = "azure-npm-1,azure-npm-2", "azure-npm-3" }),
		"literal addresses":        rule(func(r *hns.ACL) { r.RemoteAddresses = "10.0.0.1,10.1.0.0/16,0.0.0.0/0" }),
		"any protocol, spelled":    rule(func(r *hns.ACL) { r.Protocols = hns.AnyProtocol }),
		"local port":               rule(func(r *hns.ACL) { r.Protocols, r.LocalPorts = "6", "80" }),
		"remote ports and ranges":  rule(func(r *hns.ACL) { r.Protocols, r.RemotePorts = "17", "53,443,1000-2000" }),
		"SCTP":                     rule(func(r *hns.ACL) { r.Protocols, r.LocalPorts = "132", "1-65535" }),
		"host":                     rule(func(r *hns.ACL) { r.RuleType, r.Priority = hns.Host, 0 }),
		"no rule type":             rule(func(r *hns.ACL) { r.RuleType = "" }),
		"lowest priority":          rule(func(r *hns.ACL) { r.Priority = 65535 }),
		"an Id that wants escapes": rule(func(r *hns.ACL) { r.ID = `azure-acl-<&>"\ü` }),
		"several":                  {plain[0], {ID: "azure-acl-default-in", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: hns.PriorityDefault}},
	} {
		var list []hcn.EndpointPolicy
		var ours []hns.EndpointPolicy
		for _, r := range acls {
			list = append(list, hcn.EndpointPolicy{Type: hcn.ACL, Settings: marshal(t, theirs(r))})
			ours = append(ours, hns.NewACLPolicy(r))
		}
		rows = append(rows, row{
			name: "rule: add: " + name, export: "HcnModifyEndpoint",
			send:   func(ctx context.Context, a *Adapter) error { return a.AddACLs(ctx, someID, acls) },
			theirs: onEndpoint(t, hcn.RequestTypeAdd, list...),
		}, replace(t, "rule: update: "+name, ours, list))
	}
	return append(rows,
		replace(t, "rule: none is left", nil, nil),
		replace(t, "rule: as hcsshim knows it", []hns.EndpointPolicy{hns.NewACLPolicy(plain[0])},
			[]hcn.EndpointPolicy{{Type: hcn.ACL, Settings: marshal(t, theirs(plain[0]).AclPolicySetting)}}),
	)
}

// replace returns the row of an Update.
func replace(t *testing.T, name string, ours []hns.EndpointPolicy, list []hcn.EndpointPolicy) row {
	t.Helper()
	return row{
		name: name, export: "HcnModifyEndpoint",
		send:   func(ctx context.Context, a *Adapter) error { return a.ReplacePolicies(ctx, someID, ours) },
		theirs: onEndpoint(t, hcn.RequestTypeUpdate, list...),
	}
}

// foreignRows are Updates that send others' policies back, beside a rule of ours.
// shown is what HNS showed, setting what a client of hcsshim makes of it.
func foreignRows(t *testing.T) []row {
	t.Helper()
	rule := hns.ACL{ID: "azure-acl-x.web", Action: hns.Block, Direction: hns.In, RuleType: hns.Switch, Priority: hns.PriorityBlock}
	last := theirs(rule)
	const scoped = `{"Action":"Block","Direction":"In","Priority":65500,"Protocols":"256","RuleType":"Switch","Scope":0,"Type":"ACL"}`
	cut, isCut := hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: []byte(scoped)}.Documented()
	require.True(t, isCut)
	everything := hcn.AclPolicySetting{Protocols: "256", Action: hcn.ActionTypeBlock, Direction: hcn.DirectionTypeIn, RuleType: hcn.RuleTypeSwitch, Priority: 65500}
	var rows []row
	for name, r := range map[string]struct {
		policy  hcn.EndpointPolicyType
		shown   string
		setting any
	}{
		"OutBoundNAT": {
			hcn.OutBoundNAT, `{"VirtualIP":"10.0.0.9","Exceptions":["10.0.0.0/8","168.63.129.16/32"],"Flags":1}`,
			hcn.OutboundNatPolicySetting{VirtualIP: "10.0.0.9", Exceptions: []string{"10.0.0.0/8", "168.63.129.16/32"}, Flags: hcn.NatFlagsLocalRoutedVip},
		},
		"SDNRoute": {
			hcn.SDNRoute, `{"DestinationPrefix":"10.2.0.0/16","NextHop":"10.0.0.1","NeedEncap":true}`,
			hcn.SDNRoutePolicySetting{DestinationPrefix: "10.2.0.0/16", NextHop: "10.0.0.1", NeedEncap: true},
		},
		"PortMapping": {
			hcn.PortMapping, `{"Protocol":6,"InternalPort":80,"ExternalPort":8080,"VIP":"10.0.0.9","Flags":1}`,
			hcn.PortMappingPolicySetting{Protocol: 6, InternalPort: 80, ExternalPort: 8080, VIP: "10.0.0.9", Flags: hcn.NatFlagsLocalRoutedVip},
		},
		"QOS":             {hcn.QOS, `{"MaximumOutgoingBandwidthInBytes":1000000}`, hcn.QosPolicySetting{MaximumOutgoingBandwidthInBytes: 1_000_000}},
		"ProviderAddress": {hcn.NetworkProviderAddress, `{"ProviderAddress":"10.240.0.5"}`, hcn.ProviderAddressEndpointPolicySetting{ProviderAddress: "10.240.0.5"}},
		"no settings":     {hcn.L2Driver, ``, nil},
		"settings of an unknown type, with blanks": {"Other", "{ \"b\" : 1.50e2,\n\t\"a\": [ null, {} ] }", json.RawMessage(`{"b":1.50e2,"a":[null,{}]}`)},
		"ACL": {
			hcn.ACL, `{"Protocols":"6","Action":"Block","Direction":"Out","RemoteAddresses":"168.63.129.16/32","RemotePorts":"80","RuleType":"Switch","Priority":200}`,
			hcn.AclPolicySetting{
				Protocols: "6", Action: hcn.ActionTypeBlock, Direction: hcn.DirectionTypeOut, RemoteAddresses: "168.63.129.16/32",
				RemotePorts: "80", RuleType: hcn.RuleTypeSwitch, Priority: 200,
			},
		},
		"ACL with Scope and Type":                       {hcn.ACL, scoped, everything},
		"ACL with Scope and Type, after it was refused": {hcn.ACL, string(cut.Settings), everything},
		"keys in another order": {
			hcn.OutBoundNAT, `{"Exceptions":["10.0.0.0/8"],"VirtualIP":"10.0.0.9"}`,
			hcn.OutboundNatPolicySetting{VirtualIP: "10.0.0.9", Exceptions: []string{"10.0.0.0/8"}},
		},
		"a key that hcsshim does not know": {
			hcn.OutBoundNAT, `{"Exceptions":["10.0.0.0/8"],"Remark":7}`,
			hcn.OutboundNatPolicySetting{Exceptions: []string{"10.0.0.0/8"}},
		},
		"< > & in settings": {hcn.PortName, `{"Name":"a<b>&c"}`, hcn.PortnameEndpointPolicySetting{Name: "a<b>&c"}},
	} {
		foreign := hcn.EndpointPolicy{Type: r.policy}
		if r.setting != nil {
			foreign.Settings = marshal(t, r.setting)
		}
		rows = append(rows, replace(t, "foreign: "+name,
			[]hns.EndpointPolicy{{Type: string(r.policy), Settings: []byte(r.shown)}, hns.NewACLPolicy(rule)},
			[]hcn.EndpointPolicy{foreign, {Type: hcn.ACL, Settings: marshal(t, last)}}))
	}
	return rows
}

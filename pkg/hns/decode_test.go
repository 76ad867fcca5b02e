package hns_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestACLOfOtherTypes: the JSON type of a field means nothing.
func TestACLOfOtherTypes(t *testing.T) {
	for name, test := range map[string]struct {
		settings string
		want     hns.ACL
	}{
		"numbers": {
			`{"Id":"azure-acl-a","Protocols":6,"LocalPorts":80,"RemotePorts":443,"Priority":222}`,
			hns.ACL{ID: "azure-acl-a", Protocols: "6", LocalPorts: "80", RemotePorts: "443", Priority: 222},
		},
		"a number as text": {`{"Priority":" 65499 ","Action":"Block"}`, hns.ACL{Priority: 65499, Action: hns.Block}},
		"lists": {
			`{"Protocols":["17"],"LocalAddresses":["10.0.0.1","10.0.0.2"],"RemoteAddresses":["azure-npm-1"],"LocalPorts":[80,"81-90",null],"RemotePorts":[],"Priority":[222]}`,
			hns.ACL{Priority: 222, Protocols: "17", LocalAddresses: "10.0.0.1,10.0.0.2", RemoteAddresses: "azure-npm-1", LocalPorts: "80,81-90"},
		},
		"null": {
			`{"Id":null,"Protocols":null,"Action":"Allow","LocalAddresses":[null],"LocalPorts":null,"RuleType":null,"Priority":null}`,
			hns.ACL{Action: hns.Allow},
		},
		"no priority as text": {`{"Priority":"","RuleType":"Host"}`, hns.ACL{RuleType: hns.Host}},
		"other fields": {
			`{"Scope":0,"Type":"ACL","ServiceName":{"x":[1]},"Protocol":17,"Protocols":256,"Direction":"Out","RuleType":"Switch"}`,
			hns.ACL{Protocols: "256", Direction: hns.Out, RuleType: hns.Switch},
		},
		"letter case of keys": {`{"id":"azure-acl-a","PROTOCOLS":6,"localPorts":[80]}`, hns.ACL{ID: "azure-acl-a", Protocols: "6", LocalPorts: "80"}},
	} {
		for _, kind := range []string{"ACL", "acl", "Acl"} {
			got, err := hns.EndpointPolicy{Type: kind, Settings: []byte(test.settings)}.ACL()
			require.NoError(t, err, name)
			require.Equal(t, test.want, got, name)
		}
	}
}

// TestACLOfOtherTypesKeepsEveryField: a field that is spelt otherwise takes none
// of the others with it.
func TestACLOfOtherTypesKeepsEveryField(t *testing.T) {
	var want hns.ACL
	for v, i := reflect.ValueOf(&want).Elem(), 0; i < v.NumField(); i++ {
		if f := v.Field(i); f.Kind() == reflect.String {
			f.SetString(v.Type().Field(i).Name)
		} else {
			f.SetUint(7)
		}
	}
	p := hns.NewACLPolicy(want)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(p.Settings, &fields))
	fields["Priority"] = "7"
	settings, err := json.Marshal(fields)
	require.NoError(t, err)
	got, err := hns.EndpointPolicy{Type: "ACL", Settings: settings}.ACL()
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestEndpointPolicyIsNoACL(t *testing.T) {
	_, err := hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte(`{}`)}.ACL()
	require.EqualError(t, err, `endpoint policy of type "OutBoundNAT" is no ACL`)
	for _, settings := range []string{
		``, `{`, `[]`, `"x"`, `{"Id":7}`, `{"Action":{}}`, `{"Direction":1}`,
		`{"Priority":"x"}`, `{"Priority":-1}`, `{"Priority":65536}`, `{"Priority":1.5}`, `{"Priority":[1,2]}`, `{"Priority":[[1]]}`, `{"Priority":true}`,
		`{"Protocols":true}`, `{"LocalPorts":{"a":1}}`, `{"LocalPorts":[[80]]}`, `{"RemoteAddresses":["10.0.0.1",{}]}`,
	} {
		a, err := hns.EndpointPolicy{Type: "ACL", Settings: []byte(settings)}.ACL()
		require.ErrorContains(t, err, "decode ACL: ", settings)
		require.Zero(t, a, settings)
	}
	_, err = hns.EndpointPolicy{Type: "ACL", Settings: []byte(`{`)}.ACL()
	var syntax *json.SyntaxError
	require.ErrorAs(t, err, &syntax)
}

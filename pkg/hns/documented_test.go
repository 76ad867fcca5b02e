package hns_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

func TestDocumented(t *testing.T) {
	for name, test := range map[string]struct{ settings, want string }{
		"as HNS shows a rule": { // azure-container-networking#1752
			`{"Action":"Block","Direction":"In","Priority":65500,"Protocols":"256","RuleType":"Switch","Scope":0,"Type":"ACL"}`,
			`{"Protocols":"256","Action":"Block","Direction":"In","RuleType":"Switch","Priority":65500}`,
		},
		"values byte for byte, but for blanks": {
			"{ \"Scope\": 0, \"LocalPorts\" : [ 80,\n81 ], \"Id\":\"a\\u003cb<\", \"Priority\":2.2e2, \"RemoteAddresses\":null }",
			"{\"Id\":\"a\\u003cb<\",\"RemoteAddresses\":null,\"LocalPorts\":[80,81],\"Priority\":2.2e2}",
		},
		"nothing of it is documented": {`{"Scope":0}`, `{}`},
		"another letter case":         {`{"scope":0,"ID":"a","ACTION":"Allow"}`, `{"Id":"a","Action":"Allow"}`},
		"a key twice":                 {`{"Priority":1,"Priority":2,"Scope":0}`, `{"Priority":2}`},
		"a key in two letter cases":   {`{"Priority":1,"PRIORITY":2}`, `{"Priority":2}`},
	} {
		for _, kind := range []string{"ACL", "acl"} {
			p := hns.EndpointPolicy{Type: kind, Settings: []byte(test.settings)}
			got, cut := p.Documented()
			require.True(t, cut, name)
			require.Equal(t, kind, got.Type, name)
			require.Equal(t, test.want, string(got.Settings), name)
			require.Equal(t, test.settings, string(p.Settings), "%s: the receiver stays", name)

			again, cut := got.Documented()
			require.False(t, cut, name)
			require.Equal(t, got, again, name)
		}
	}
}

func TestDocumentedLeaves(t *testing.T) {
	for name, p := range map[string]hns.EndpointPolicy{
		"what is documented, in any order": {Type: "ACL", Settings: []byte(`{"Priority":1, "Id":"a"}`)},
		"another type":                     {Type: "OutBoundNAT", Settings: []byte(`{"VIP":1}`)},
		"tiers":                            {Type: hns.PolicyTypeTierACL, Settings: []byte(`{"Order":1}`)},
		"a documented key twice":           {Type: "ACL", Settings: []byte(`{"Priority":1,"Priority":2}`)},
		"an empty object":                  {Type: "ACL", Settings: []byte(`{}`)},
		"nothing":                          {Type: "ACL"},
		"null":                             {Type: "ACL", Settings: []byte(`null`)},
		"a list":                           {Type: "ACL", Settings: []byte(`["Scope",0]`)},
		"no JSON":                          {Type: "ACL", Settings: []byte(`{"Scope":}`)},
		"without end":                      {Type: "ACL", Settings: []byte(`{"Scope":0`)},
		"something behind":                 {Type: "ACL", Settings: []byte(`{"Scope":0}{"Scope":1}`)},
		"a stray brace":                    {Type: "ACL", Settings: []byte(`{"Scope":0}}`)},
	} {
		got, cut := p.Documented()
		require.False(t, cut, name)
		require.Equal(t, p, got, name)
	}
}

// TestDocumentedHasEveryField: what a rule of ours has is never cut.
func TestDocumentedHasEveryField(t *testing.T) {
	settings := []string{`"Scope":0`}
	for i := range reflect.TypeFor[hns.ACL]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[hns.ACL]().Field(i).Tag.Get("json"), ",")
		settings = append(settings, `"`+name+`":"1"`)
	}
	got, cut := hns.EndpointPolicy{Type: "ACL", Settings: []byte("{" + strings.Join(settings, ",") + "}")}.Documented()
	require.True(t, cut)
	require.Equal(t, "{"+strings.Join(settings[1:], ",")+"}", string(got.Settings))
	require.True(t, json.Valid(got.Settings))
}

package acl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestMissingDefaults: what counts as somebody else's allow-all.
func TestMissingDefaults(t *testing.T) {
	both := []string{IDAllowIn, IDAllowOut}
	acl := func(text string) hns.EndpointPolicy {
		return hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: []byte(text)}
	}
	for _, tc := range []struct {
		name    string
		foreign []hns.EndpointPolicy
		Desired []string
	}{
		{"nothing", nil, both},
		{"allow in", []hns.EndpointPolicy{acl(`{"Action":"Allow","Direction":"In","RuleType":"Switch","Priority":65500}`)}, []string{IDAllowOut}},
		{"allow out, any protocol spelled out", []hns.EndpointPolicy{acl(`{"Action":"Allow","Direction":"Out","RuleType":"Switch","Protocols":"256"}`)}, []string{IDAllowIn}},
		{"block", []hns.EndpointPolicy{acl(`{"Action":"Block","Direction":"In","RuleType":"Switch"}`)}, both},
		{"host", []hns.EndpointPolicy{acl(`{"Action":"Allow","Direction":"In","RuleType":"Host"}`)}, both},
		{"one protocol", []hns.EndpointPolicy{acl(`{"Action":"Allow","Direction":"In","RuleType":"Switch","Protocols":"6"}`)}, both},
		{"one peer", []hns.EndpointPolicy{acl(`{"Action":"Allow","Direction":"In","RuleType":"Switch","RemoteAddresses":"10.0.0.1"}`)}, both},
		{"one port", []hns.EndpointPolicy{acl(`{"Action":"Allow","Direction":"In","RuleType":"Switch","Protocols":"","LocalPorts":"80"}`)}, both},
		{"no ACL", []hns.EndpointPolicy{{Type: "OutBoundNAT", Settings: []byte(`{}`)}, acl(`not JSON`)}, both},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, a := range MissingDefaults(hns.Endpoint{Policies: tc.foreign}.Parts(nil).Defaults, nil) {
				require.Equal(t, hns.PriorityDefault, a.Priority)
				got = append(got, a.ID)
			}
			require.Equal(t, tc.Desired, got)
		})
	}
}

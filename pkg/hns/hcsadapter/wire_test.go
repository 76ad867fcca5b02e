package hcsadapter

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
)

func TestEncodeSets(t *testing.T) {
	require.Equal(t, `{"ResourceType":"Policy","RequestType":"Update","Settings":{"Policies":[`+
		`{"Type":"SetPolicy","Settings":{"Id":"azure-npm-1","Name":"ns-x","PolicyType":"IPSET","Values":"10.0.0.1,10.0.1.0/24"}},`+
		`{"Type":"SetPolicy","Settings":{"Id":"azure-npm-2","Name":"ns-y","PolicyType":"NESTEDIPSET","Values":""}}]}}`,
		encodeSets(hns.Update, []hns.SetPolicy{
			{ID: "azure-npm-1", Name: "ns-x", Type: hns.IPSet, Values: []string{"10.0.0.1", "10.0.1.0/24"}},
			{ID: "azure-npm-2", Name: "ns-y", Type: hns.NestedIPSet},
		}))
}

func TestEncodePolicies(t *testing.T) {
	for name, test := range map[string]struct {
		list []hns.EndpointPolicy
		want string
	}{
		"none clears":      {nil, `{}`},
		"raw":              {[]hns.EndpointPolicy{{Type: "ACL", Settings: []byte(`{"B":1,"A":1.50}`)}}, `{"Policies":[{"Type":"ACL","Settings":{"B":1,"A":1.50}}]}`},
		"without settings": {[]hns.EndpointPolicy{{Type: "L2Driver"}}, `{"Policies":[{"Type":"L2Driver"}]}`},
		"not escaped":      {[]hns.EndpointPolicy{{Type: "X", Settings: []byte(`{"A":"<&> "}`)}}, `{"Policies":[{"Type":"X","Settings":{"A":"<&> "}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := encodePolicies(hns.Add, test.list)
			require.NoError(t, err)
			require.Equal(t, `{"ResourceType":"Policy","RequestType":"Add","Settings":`+test.want+`}`, got)
		})
	}
	_, err := encodePolicies(hns.Add, []hns.EndpointPolicy{{Type: "ACL", Settings: []byte(`{`)}})
	require.ErrorContains(t, err, "encode endpoint policies: ")
}

func TestFilter(t *testing.T) {
	require.Equal(t, `{"SchemaVersion":{"Major":2,"Minor":0}}`, hcnQuery(""))
	require.Equal(t, `{"State":3}`, filter("State", 3))
	require.Equal(t, `{"Name":"a\"b"}`, filter("Name", `a"b`))
}

func TestDecodeNetwork(t *testing.T) {
	settings := func(text string) hns.EndpointPolicy {
		return hns.EndpointPolicy{Type: "SetPolicy", Settings: []byte(text)}
	}
	got := network{ID: "id", Name: "azure", Policies: []hns.EndpointPolicy{
		{Type: "HostRoute", Settings: []byte(`{"Id":"azure-npm-0"}`)},
		settings(`{"Id":"azure-npm-1","Name":"ns-x","PolicyType":"IPSET","Values":"10.0.0.1,10.0.1.0/24"}`),
		settings(`{"Id":"azure-npm-2","Name":"e","PolicyType":"IPSET","Values":""}`),
		settings(`{"Id":"theirs","PolicyType":"NESTEDIPSET","Values":"azure-npm-1","More":{}}`),
		settings(`{"Id":"azure-npm-3","Name":"odd","PolicyType":"IPSET","Values":["10.0.0.1"]}`),
		settings(`{"Id":7,"Values":"10.0.0.1"}`),
		settings(``),
	}}.decode()
	require.Empty(t, cmp.Diff(hns.Network{ID: "id", Name: "azure", Sets: []hns.SetPolicy{
		{ID: "azure-npm-1", Name: "ns-x", Type: hns.IPSet, Values: []string{"10.0.0.1", "10.0.1.0/24"}},
		{ID: "azure-npm-2", Name: "e", Type: hns.IPSet},
		{ID: "theirs", Type: hns.NestedIPSet, Values: []string{"azure-npm-1"}},
		{ID: "azure-npm-3", Name: "odd", Type: hns.IPSet},
	}}, got))
}

func TestDecodeEndpoint(t *testing.T) {
	e := endpoint{
		ID: "9B3E", IPConfigurations: []ipConfig{{"10.0.0.1"}, {""}, {"10.0.0.1/24"}, {"fd00::1"}, {"10.0.0.2"}},
		Policies: []hns.EndpointPolicy{{Type: "ACL", Settings: []byte(`{ "Action": "Allow" }`)}, {Type: "L2Driver"}},
	}
	got := e.decode()
	require.Equal(t, hns.Endpoint{
		ID:       "9B3E",
		Addrs:    []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.2")},
		Policies: []hns.EndpointPolicy{{Type: "ACL", Settings: []byte(`{"Action":"Allow"}`)}, {Type: "L2Driver"}},
	}, got)
	clear(got.Policies[0].Settings)
	require.JSONEq(t, `{"Action":"Allow"}`, string(e.Policies[0].Settings), "the result is a copy")
}

// TestStable: what was read is sent with the same bytes, and means what HNS has
// shown.
func TestStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"<a> & b", "\u2028\u2029", `\`, "\x00\x1f", "ünïcode", "𝄞"}))
		value := map[string]any{
			text.Draw(t, "key"): text.Draw(t, "text"), "list": []any{rapid.Float64().Draw(t, "number"), nil, true},
			"deep": map[string]any{text.Draw(t, "deep key"): map[string]any{}},
		}
		shown, err := json.MarshalIndent(value, " ", "\t")
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "not escaped") {
			shown = unescaped(t, value)
		}
		read := stable(shown)
		require.JSONEq(t, string(shown), string(read))

		request, err := encodePolicies(hns.Update, []hns.EndpointPolicy{{Type: "X", Settings: read}})
		require.NoError(t, err)
		require.Contains(t, request, `{"Policies":[{"Type":"X","Settings":`+string(read)+`}]}`)
	})
}

func unescaped(t *rapid.T, value any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(value))
	return out.Bytes()
}

func TestStableKeepsSpelling(t *testing.T) {
	for shown, want := range map[string]string{
		`{"B":1.50,"A":1e3,"B":2}`:      `{"B":1.50,"A":1e3,"B":2}`,
		" {\t\"A\" :\r\n[ 1 , 2 ] } ":   `{"A":[1,2]}`,
		`{"A":"a  b\/\u0041é"}`:         `{"A":"a  b\/\u0041é"}`,
		`{"A":"<&>"}`:                   `{"A":"<&>"}`,
		`{"A":"\ud834\udd1e \ud800 x"}`: `{"A":"\ud834\udd1e \ud800 x"}`,
		`nonsense`:                      `nonsense`,
	} {
		require.Equal(t, want, string(stable([]byte(shown))))
	}
	require.Nil(t, stable(nil))
}

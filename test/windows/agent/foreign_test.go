//go:build linux

package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// What somebody else takes away from us is put back at the next reconcile. What
// they add stays, byte for byte.
func TestScenario_B7_ForeignHands(t *testing.T) {
	begin(t)
	h, w, n := openShop(t)
	before := h.state()
	_, policies := h.endpoint(dbAddr) // ours go
	plain := `{"Exceptions":["10.0.0.0/8"],"b":1.50e2,"a":"\u00fc","Nested":{"z":null,"y":[]}}`
	marked := `{"Comment":"a <b> & c"}`
	require.NoError(t, h.Sim().SetPolicies(h.endpoints[dbAddr], append(policies,
		hns.EndpointPolicy{Type: "OutBoundNAT", Settings: json.RawMessage(plain)},
		hns.EndpointPolicy{Type: "Other", Settings: json.RawMessage(marked)},
	)))
	theirs := func() (nat, other string) {
		t.Helper()
		_, policies := h.endpoint(dbAddr)
		for _, p := range policies {
			switch p.Type {
			case "OutBoundNAT":
				nat = string(p.Settings)
			case "Other":
				other = string(p.Settings)
			}
		}
		return nat, other
	}
	survive := func() {
		t.Helper()
		nat, other := theirs()
		require.Equal(t, plain, nat)
		require.Equal(t, marked, other)
	}
	eventually(t, settle, func() string {
		return difference(before, slices.DeleteFunc(h.state(), func(line string) bool {
			return strings.Contains(line, "foreign OutBoundNAT") || strings.Contains(line, "foreign Other")
		}))
	})
	survive()
	repaired := regexp.MustCompile(`npm_drift_repaired_total\{kind="acl"\} [1-9]`)
	eventually(t, settle, func() string { // it is counted when the transaction has ended
		if !repaired.MatchString(n.page("/node-metrics")) {
			return "no repair is counted"
		}
		return ""
	})

	// Taking a rule away rewrites all policies of the endpoint.
	w.deletePolicy("shop", "from-web")
	h.waitVerdicts(w.kube, ownAddr)
	require.Empty(t, h.ours(dbAddr))
	survive()
	w.policy("shop", "from-far", fromFar)
	h.waitVerdicts(w.kube, ownAddr)
	survive()
}

// An endpoint of another network with the address of a pod is not ours.
func TestScenario_C4_OtherNetworks(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	const other = "0A0B0C0D-0000-4000-8000-000000000001"
	require.NoError(t, h.Sim().CreateEndpoint(hnssim.NewEndpoint{ID: other, Addrs: []netip.Addr{dbAddr}, Network: "nat"}))
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{flags: calm})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	for _, e := range h.Sim().Endpoints() {
		ours, _ := hns.Endpoint{Policies: e.Policies}.Split()
		require.Equal(t, e.ID == h.endpoints[dbAddr], len(ours) > 0, fmt.Sprint(e))
	}
	require.False(t, strings.Contains(n.said(), other), "it was read, and is nobody's")
}

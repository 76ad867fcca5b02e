//go:build linux

package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// An endpoint that cannot be read, of whatever network, keeps no new pod from
// being found. Those of other networks are not asked for once HNS has shown that
// it heeds a filter for ours.
func TestAnswer_UnreadableEndpoint(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	const other = "0A0B0C0D-0000-4000-8000-000000000001"
	require.NoError(t, h.Sim().CreateEndpoint(hnssim.NewEndpoint{ID: other, Addrs: []netip.Addr{lateAddr}, Network: "nat"}))
	var opened atomic.Int64
	h.Inject(hnsd.Fault{Proc: "HcnOpenEndpoint", Object: other, Code: 0x803B0031, Times: -1, Do: func() { opened.Add(1) }})
	w.policy("shop", "all", `{podSelector: {}}`)
	n := start(t, ownNode, h.addr, options{flags: calm})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	atStart := opened.Load()
	require.LessOrEqual(t, atStart, int64(2), "before HNS has shown that it filters")
	for i, code := range []uint32{0x803B0031, 0x803B0017} {
		for j, proc := range []string{"HcnOpenEndpoint", "HcnQueryEndpointProperties"} {
			t.Run(fmt.Sprintf("0x%08x from %s", code, proc), func(t *testing.T) {
				bad, err := h.CreateEndpoint(addr(60 + 2*i + j))
				require.NoError(t, err)
				fault := hnsd.Fault{Proc: proc, Object: bad, Code: code, Times: -1}
				h.Inject(fault)
				late := w.late(h, 2*i+j)
				began := time.Now()
				eventually(t, atOnce, func() string { return h.denies(h.incoming(stranger, late, 80)) })
				t.Logf("closed after %v", time.Since(began).Round(time.Millisecond))
				require.NotContains(t, h.UnusedFaults(), fault, "nobody tried to read it")
			})
		}
	}
	require.Equal(t, atStart, opened.Load(), "an endpoint of another network was opened again")
}

// respell has HNS show every policy of endpoints, and every set, in a spelling
// of its own.
func (h *host) respell(acl, set func(map[string]any)) {
	h.Show(func(_, text string) string {
		var shown map[string]any
		if json.Unmarshal([]byte(text), &shown) != nil {
			return text
		}
		list, _ := shown["Policies"].([]any)
		for _, p := range list {
			policy, _ := p.(map[string]any)
			settings, _ := policy["Settings"].(map[string]any)
			switch {
			case policy["Type"] == hns.PolicyTypeACL && acl != nil:
				acl(settings)
			case policy["Type"] == "SetPolicy" && set != nil:
				set(settings)
			}
		}
		again, err := json.Marshal(shown)
		if err != nil {
			return text
		}
		return string(again)
	})
}

// blocks writes single addresses as blocks.
func blocks(settings map[string]any, key string) {
	list, _ := settings[key].(string)
	if list == "" || strings.Contains(list, hns.SetIDPrefix) {
		return
	}
	parts := strings.Split(list, ",")
	for i, part := range parts {
		if !strings.Contains(part, "/") {
			parts[i] += "/32"
		}
	}
	settings[key] = strings.Join(parts, ",")
}

// reversed turns a list around.
func reversed(settings map[string]any, key string) {
	if list, ok := settings[key].(string); ok {
		parts := strings.Split(list, ",")
		slices.Reverse(parts)
		settings[key] = strings.Join(parts, ",")
	}
}

// An HNS that spells what we sent in its own way gets no more than one write for
// each endpoint at a start, and none after that.
func TestAnswer_Spelling(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	w.policy("shop", "literals", `{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress, Egress], ingress: [{from: [{ipBlock: {cidr: 172.16.5.4/32}}, {ipBlock: {cidr: 172.16.0.9/32}}], ports: [{port: 80}, {port: 443}, {port: 1000, endPort: 2000}]}], egress: [{}]}`)
	h.respell(func(acl map[string]any) {
		for _, key := range []string{"LocalAddresses", "RemoteAddresses"} {
			blocks(acl, key)
		}
		for _, key := range []string{"LocalPorts", "RemotePorts"} {
			reversed(acl, key)
		}
		delete(acl, "RuleType")
		acl["Revision"] = 7
	}, func(set map[string]any) { blocks(set, "Values") })
	n := start(t, ownNode, h.addr, options{flags: hurried})
	n.waitReady()
	quiet := func(d time.Duration) {
		t.Helper()
		h.ResetCounts()
		always(t, d, func() string {
			if h.writes() > 0 {
				return fmt.Sprintf("writes: %v", h.Counts())
			}
			return n.check("/readyz")
		})
		for _, warning := range n.dump().Warnings {
			require.NotContains(t, []state.Reason{state.ReasonForeignWrites, state.ReasonHNSUnavailable}, warning.Reason, "%v", warning)
		}
	}
	quiet(8 * time.Second) // 16 rounds of the reconciler
	for i, limit := range []int{len(h.endpoints), 0} {
		h.ResetCounts()
		n = n.restart(h, true)
		require.LessOrEqual(t, h.writes(), limit, "start %d: %v", i+2, h.Counts())
		quiet(2 * time.Second)
	}
	h.Show(nil)
	h.waitVerdicts(w.kube, ownAddr)
}

// What others have is shown in other bytes at each read, and the pod is closed all
// the same.
func TestAnswer_OthersNeverLookTheSame(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{flags: calm})
	n.waitReady()
	var reads atomic.Int64
	h.respell(func(acl map[string]any) {
		if acl["Id"] == nil {
			acl["Hits"] = reads.Add(1)
		}
	}, nil)
	w.guard("late", "late-0", "web", 80)
	late := w.late(h, 0)
	eventually(t, atOnce, func() string {
		return h.denies(h.incoming(stranger, late, 80)) + h.allows(h.incoming(webPod, late, 80))
	})
	require.Positive(t, reads.Load())
	n.waitReady()
}

// An HNS that does not take back what it shows of others' rules still gets what is
// edited and deleted, and nobody loses a rule.
func TestAnswer_OthersAreNotTakenBack(t *testing.T) {
	begin(t)
	for i, key := range []string{`"Scope"`, `"Type":"ACL"}`} {
		t.Run(key, func(t *testing.T) {
			h := newHost(t, azure())
			w := shop(t, h)
			n := start(t, ownNode, h.addr, options{flags: calm})
			n.waitReady()
			h.waitVerdicts(w.kube, ownAddr)
			_, theirs := h.endpoint(dbAddr)
			defer h.refuse(unlisted[i], `"Update"`, key)()

			require.NoError(t, w.kube.patch(t.Context(), policies, "shop", "from-web", "",
				`{"spec":{"ingress":[{"from":[{"podSelector":{"matchLabels":{"app":"far"}}}],"ports":[{"port":8080}]}]}}`))
			began := time.Now()
			eventually(t, atOnce, func() string {
				return h.allows(h.incoming(farPod, dbPod, 8080)) + h.denies(h.incoming(webPod, dbPod, 80))
			})
			edited := time.Since(began)
			w.deletePolicy("shop", "from-web")
			eventually(t, atOnce, func() string { return h.allows(h.incoming(stranger, dbPod, 80)) })
			t.Logf("edited after %v, deleted after %v", edited.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
			_, after := h.endpoint(dbAddr)
			require.Equal(t, rulesOf(t, theirs), rulesOf(t, after), "they keep what they had")
		})
	}
}

// rulesOf is what rules mean, whatever else HNS shows of them.
func rulesOf(t *testing.T, list []hns.EndpointPolicy) []hns.ACL {
	t.Helper()
	var out []hns.ACL
	for _, p := range list {
		acl, err := p.ACL()
		require.NoError(t, err)
		out = append(out, acl.Canonical())
	}
	return out
}

// An endpoint that is made anew, with another GUID, for a pod that knows nothing
// of it, is closed within seconds.
func TestAnswer_EndpointMadeAnew(t *testing.T) {
	begin(t)
	h, w, _ := openShop(t, "--reconcile-interval", never)
	h.unplug(dbAddr)
	h.plug(dbAddr)
	began := time.Now()
	eventually(t, atOnce, func() string { return h.denies(h.incoming(stranger, dbPod, 80)) })
	t.Logf("closed after %v", time.Since(began).Round(time.Millisecond))
	h.waitVerdicts(w.kube, ownAddr)
}

// What HNS loses without another process, or another hand takes, is back within
// the minute: the rules of an endpoint and a set, then everything.
func TestAnswer_SilentLoss(t *testing.T) {
	begin(t)
	h, _, n := openShop(t, "--reconcile-interval", never)
	before := h.state()
	for _, lost := range []struct {
		what string
		lose func()
	}{
		{"the rules of an endpoint and a set", func() {
			_, theirs := h.endpoint(dbAddr)
			require.NoError(t, h.Sim().SetPolicies(h.endpoints[dbAddr], theirs))
			sets := h.Sim().Sets()
			i := slices.IndexFunc(sets, func(s hns.SetPolicy) bool { return s.Type == hns.IPSet && len(s.Values) > 0 })
			require.NoError(t, h.Sim().DropSet(sets[i].ID))
		}},
		{"everything", func() { h.Sim().Restart(true) }},
	} {
		lost.lose()
		require.NotEmpty(t, difference(before, h.state()))
		began := time.Now()
		eventually(t, aMinute, func() string { return difference(before, h.state()) })
		t.Logf("%s: back after %v", lost.what, time.Since(began).Round(100*time.Millisecond))
	}
	n.waitReady()
}

package simulate

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// line is a verdict in one line.
func line(v Verdict) string {
	side := func(s *Side) string {
		switch {
		case s == nil:
			return "null"
		case s.Allowed:
			return "+" + s.Policy
		}
		return "-" + s.Policy
	}
	word := "deny"
	switch {
	case v.Allowed == nil:
		word = "unknown"
	case *v.Allowed:
		word = "allow"
	}
	return fmt.Sprintf("%s->%s:%d/%s %s in %s out %s", v.From, v.To, v.Port, v.Protocol, word, side(v.Ingress), side(v.Egress))
}

func rows(vs []Verdict) []string {
	out := []string{}
	for _, v := range vs {
		out = append(out, line(v))
	}
	return out
}

func TestVerdicts(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    Options
		want []string
	}{
		{"matrix of live pods in the pod network", Options{Matrix: []string{"5432/tcp"}}, []string{
			"x/db->x/probe:5432/TCP deny in + out -x/db",
			"x/db->x/web:5432/TCP deny in + out -x/db",
			"x/probe->x/db:5432/TCP deny in -x/also-db out +",
			"x/probe->x/web:5432/TCP allow in + out +",
			"x/web->x/db:5432/TCP allow in +x/also-db out +",
			"x/web->x/probe:5432/TCP allow in + out +",
		}},
		{"two ports, then traces", Options{Options: cluster.Options{Node: "n1"}, Matrix: []string{"1/UDP", "2/SCTP"}, Trace: []string{"x/web->x/db:3/TCP"}}, []string{
			"x/db->x/probe:1/UDP deny in null out -x/db",
			"x/db->x/web:1/UDP deny in null out -x/db",
			"x/probe->x/db:1/UDP deny in -x/also-db out null",
			"x/web->x/db:1/UDP unknown in +x/also-db out null",
			"x/db->x/probe:2/SCTP deny in null out -x/db",
			"x/db->x/web:2/SCTP deny in null out -x/db",
			"x/probe->x/db:2/SCTP deny in -x/also-db out null",
			"x/web->x/db:2/SCTP unknown in +x/also-db out null",
			"x/web->x/db:3/TCP unknown in +x/also-db out null",
		}},
		{"its own node may, of another one that is not known", Options{Trace: []string{"10.9.0.1->x/db:80/TCP", "10.9.0.2->x/db:80/TCP"}}, []string{
			"10.9.0.1->x/db:80/TCP allow in + out +",
			"10.9.0.2->x/db:80/TCP unknown in null out +",
		}},
		{"with --node only that one", Options{Options: cluster.Options{Node: "n1"}, Trace: []string{"10.9.0.1->x/db:80/TCP", "10.9.0.2->x/db:80/TCP"}}, []string{
			"10.9.0.1->x/db:80/TCP allow in + out +",
			"10.9.0.2->x/db:80/TCP deny in -x/also-db out +",
		}},
		{"the address of a pod is that pod", Options{Trace: []string{"10.0.0.2->10.0.0.1:5432/TCP", "x/db->10.0.0.2:80/TCP"}}, []string{
			"10.0.0.2->10.0.0.1:5432/TCP allow in +x/also-db out +",
			"x/db->10.0.0.2:80/TCP deny in + out -x/db",
		}},
		{"addresses of nobody", Options{Trace: []string{"8.8.8.8->x/db:80/TCP", "x/db->8.8.8.8:80/TCP", "8.8.8.8->9.9.9.9:1/UDP"}}, []string{
			"8.8.8.8->x/db:80/TCP deny in -x/also-db out +",
			"x/db->8.8.8.8:80/TCP deny in + out -x/db",
			"8.8.8.8->9.9.9.9:1/UDP allow in + out +",
		}},
		{"a host-network pod has no endpoint", Options{Trace: []string{"x/agent->x/db:80/TCP", "x/web->x/agent:80/TCP"}}, []string{
			"x/agent->x/db:80/TCP unknown in null out +",
			"x/web->x/agent:80/TCP allow in + out +",
		}},
		{"a host-network pod of another node", Options{Options: cluster.Options{Node: "n1"}, Trace: []string{"x/agent->x/db:80/TCP"}}, []string{
			"x/agent->x/db:80/TCP deny in -x/also-db out null",
		}},
		{"a pod with itself", Options{Trace: []string{"x/db->x/db:80/TCP"}}, []string{"x/db->x/db:80/TCP allow in + out +"}},
		{"no end on the node", Options{Options: cluster.Options{Node: "n1"}, Trace: []string{"x/web->x/probe:80/TCP"}}, []string{}},
		{"a node without pods", Options{Options: cluster.Options{Node: "n3"}, Matrix: []string{"80/TCP"}}, []string{}},
		{"the CNI's own block", Options{Trace: []string{"x/web->168.63.129.16:80/TCP"}}, []string{
			"x/web->168.63.129.16:80/TCP deny in + out -",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.o.Manifests = []string{small}
			code, d := onceJSON(t, tc.o)
			require.Equal(t, cli.ExitOK, code)
			require.Equal(t, tc.want, rows(d.Verdicts))
		})
	}
}

func TestEndpointsUnderNode(t *testing.T) {
	pods := func(node string) []string {
		_, d := onceJSON(t, Options{Options: cluster.Options{Manifests: []string{small}, Node: node}})
		out := []string{}
		for _, e := range d.Endpoints {
			out = append(out, e.Pod+" "+e.IP)
			require.Len(t, e.Foreign, 4)
		}
		return out
	}
	require.Equal(t, []string{"x/db 10.0.0.1", "x/probe 10.0.0.3", "x/web 10.0.0.2"}, pods(""))
	require.Equal(t, []string{"x/db 10.0.0.1"}, pods("n1"))
	require.Equal(t, []string{"x/probe 10.0.0.3", "x/web 10.0.0.2"}, pods("n2"))
	require.Equal(t, []string{}, pods("n3"))
}

// TestContestedAddress: pods of two namespaces report one address, and others what no
// pod can have. Nothing is open, and each is told.
func TestContestedAddress(t *testing.T) {
	pod := func(namespace, name, ip string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {namespace: ` + namespace + `, name: ` + name + `, labels: {app: ` + name + `}}, spec: {containers: [{name: c, image: i}]},
  status: {phase: Running, podIP: ` + ip + `, startTime: '2999-01-01T00:00:00Z'}}` + "\n---\n"
	}
	deny := func(namespace, directions string) string {
		return `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: ` + namespace + `, name: deny}, spec: {podSelector: {}, policyTypes: [` + directions + `]}}` + "\n---\n"
	}
	text := pod("x", "victim", "10.0.0.1") + pod("t", "thief", "10.0.0.1") + pod("z", "other", "10.0.0.2") +
		pod("z", "a", "127.0.0.1") + pod("z", "b", "224.0.0.1") + pod("z", "c", "0.0.0.0") + pod("z", "node", "10.9.0.1") + deny("x", "Ingress") + deny("t", "Egress") +
		"{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 10.9.0.1}]}}\n---\n" +
		`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: z, name: all}, spec: {podSelector: {matchLabels: {app: other}}, ingress: [{from: [{namespaceSelector: {}}]}]}}` + "\n"
	file := filepath.Join(t.TempDir(), "m.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	code, d := onceJSON(t, Options{
		Options: cluster.Options{Manifests: []string{file}},
		Trace: []string{
			"z/other->x/victim:80/TCP", "z/other->t/thief:80/TCP", "x/victim->8.8.8.8:80/TCP", "10.0.0.1->z/other:80/TCP", "127.0.0.1->z/other:80/TCP",
		},
	})
	require.Equal(t, ExitIncomplete, code)
	require.Equal(t, []string{
		"z/other->x/victim:80/TCP deny in -x/deny out +",
		"z/other->t/thief:80/TCP deny in -x/deny out +",
		"x/victim->8.8.8.8:80/TCP deny in + out -t/deny",
		"10.0.0.1->z/other:80/TCP deny in -z/all out -t/deny",
		"127.0.0.1->z/other:80/TCP deny in -z/all out +",
	}, rows(d.Verdicts))
	var told []string
	for _, w := range d.Warnings {
		require.Equal(t, state.ReasonAddressContested, w.Reason)
		told = append(told, w.Object)
	}
	require.ElementsMatch(t, []string{"t/thief", "z/a", "z/b", "z/c", "z/node"}, told)
	for _, s := range d.Sets {
		require.Subset(t, []string{"10.0.0.2"}, slices.DeleteFunc(slices.Clone(s.Values), func(v string) bool { return strings.HasPrefix(v, "azure-npm-") }), s.Name)
	}
}

// Of two pods with one address the later one owns it; its policies hold at both
// endpoints, whichever pod is named.
func TestTwoPodsWithOneAddress(t *testing.T) {
	pod := func(name, started string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: ` + name + `, labels: {app: ` + name + `}}, spec: {containers: [{name: c, image: i}]},
  status: {phase: Running, podIP: 10.0.0.1, startTime: '` + started + `'}}` + "\n---\n"
	}
	text := pod("old", "2026-01-01T00:00:00Z") + pod("new", "2026-01-02T00:00:00Z") +
		"{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: new}, spec: {podSelector: {matchLabels: {app: new}}}}\n---\n" +
		"{apiVersion: v1, kind: Pod, metadata: {name: other}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.2}}\n"
	file := filepath.Join(t.TempDir(), "m.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	code, d := onceJSON(t, Options{Options: cluster.Options{Manifests: []string{file}}, Matrix: []string{"80/TCP"}})
	require.Equal(t, ExitIncomplete, code)
	require.Len(t, d.Warnings, 1)
	require.Equal(t, state.ReasonAddressContested, d.Warnings[0].Reason)
	require.Equal(t, "address 10.0.0.1 is claimed by default/new, default/old: it counts as that of default/new, which runs here; "+
		"find out who reports it wrongly: kubectl get pods -A -o wide", d.Warnings[0].Message)
	require.Len(t, d.Endpoints, 2+1)
	require.Equal(t, []string{
		"default/new->default/old:80/TCP allow in + out +",
		"default/new->default/other:80/TCP allow in + out +",
		"default/old->default/new:80/TCP allow in + out +",
		"default/old->default/other:80/TCP allow in + out +",
		"default/other->default/new:80/TCP deny in -default/new out +",
		"default/other->default/old:80/TCP deny in -default/new out +",
	}, rows(d.Verdicts))
}

// A pod with two endpoints is open where both are; what is not known of one is no
// verdict.
func TestSide(t *testing.T) {
	acl := func(id string, action hns.ActionType, priority uint16) hns.ACL {
		return hns.ACL{ID: hns.ACLIDPrefix + id, Action: action, Direction: hns.In, RuleType: hns.Switch, Priority: priority}
	}
	b, a, c := acl("x.b", hns.Allow, 222), acl("x.a", hns.Allow, 222), acl("x.c", hns.Allow, 222)
	block := acl("npm-block-in", hns.Block, 3000)
	endpoint := func(id string, acls ...hns.ACL) state.EndpointDump {
		return state.EndpointDump{ID: id, Known: true, Applied: acls, Wanted: acls}
	}
	for _, tc := range []struct {
		endpoints []string
		want      string
	}{
		{[]string{"open"}, "+x/a"},
		{[]string{"shut"}, "-x/p"},
		{[]string{"open", "shut"}, "-x/p"},
		{[]string{"shut", "open"}, "-x/p"},
		{[]string{"open", "unread"}, ""},
		{[]string{"unread", "shut"}, "-x/p"},
		{nil, ""},
	} {
		j := judge{cluster: explain.New(state.Dump{
			Pods:      []state.PodDump{{Pod: "x/pod", Addr: "10.0.0.1", Local: true, Owner: true, Endpoints: tc.endpoints}},
			Endpoints: []state.EndpointDump{endpoint("open", b, block, a, c), endpoint("shut", block), {ID: "unread"}},
			Policies:  []state.PolicyDump{{Policy: "x/e", Egress: true, Selected: []string{"x/pod"}}, {Policy: "x/p", Ingress: true, Selected: []string{"x/pod"}}, {Policy: "x/q", Ingress: true, Selected: []string{"x/pod"}}},
		})}
		verdicts, err := j.traces([]explain.Question{{From: "8.8.8.8", To: "x/pod", Port: 80, Protocol: policy.TCP}})
		if tc.want == "" {
			require.EqualError(t, err, "x/pod: what HNS has there is not known", tc.endpoints)
			continue
		}
		require.NoError(t, err)
		require.Len(t, verdicts, 1)
		word := map[byte]string{'+': "allow", '-': "deny"}[tc.want[0]]
		require.Equal(t, "8.8.8.8->x/pod:80/TCP "+word+" in "+tc.want+" out +", line(verdicts[0]))
	}
}

// TestVerdictsAreTheSimulators: what is answered from the dump is what the simulator
// does with the packets.
func TestVerdictsAreTheSimulators(t *testing.T) {
	traced, blocked := 0, 0
	w, err := cluster.Read(t.Context(), cluster.Options{Manifests: []string{"../explain/testdata/cluster.yaml"}})
	require.NoError(t, err)
	n, _, err := w.Run(t.Context(), nil)
	require.NoError(t, err)
	sim, dump := n.Sim, n.Dataplane.Dump()
	pods := map[string]state.PodDump{}
	for _, p := range dump.Pods {
		pods[p.Pod] = p
	}
	decide := func(pod string, dir hns.DirectionType, packet hnssim.Packet) bool {
		allowed := true
		for _, id := range pods[pod].Endpoints {
			v, err := sim.Trace(id, dir, packet)
			require.NoError(t, err)
			allowed = allowed && v.Allowed
			traced++
		}
		return allowed
	}
	q := questions{matrix: []explain.Question{{Port: 80, Protocol: policy.TCP}, {Port: 5432, Protocol: policy.TCP}, {Port: 53, Protocol: policy.UDP}}, all: true}
	r, err := newResult(sim, judge{cluster: explain.New(dump)}, nil, q)
	require.NoError(t, err)
	err = r.verdicts(t.Context(), func(v Verdict) error {
		packet := hnssim.Packet{
			Src: netip.MustParseAddr(pods[v.From].Addr), Dst: netip.MustParseAddr(pods[v.To].Addr), DstPort: v.Port,
			Protocol: map[policy.Protocol]uint8{policy.TCP: 6, policy.UDP: 17}[v.Protocol],
		}
		require.Equal(t, decide(v.To, hns.In, packet), v.Ingress.Allowed, line(v))
		require.Equal(t, decide(v.From, hns.Out, packet), v.Egress.Allowed, line(v))
		if !*v.Allowed {
			blocked++
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, traced, 50)
	require.Positive(t, blocked)
}

func TestGridOfManyPodsIsASummary(t *testing.T) {
	text := thousands(gridColumns)
	code, stdout, _ := once(t, Options{Options: cluster.Options{Manifests: []string{"-"}, Stdin: strings.NewReader(text)}, Matrix: []string{"80/TCP"}})
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "\nMATRIX 80/TCP, 2 workloads of 81 pods: ")
	require.Contains(t, stdout, "\n   1 x/apart  .  I\n   2 x/d      +  +\n")

	code, stdout, _ = once(t, Options{Options: cluster.Options{Manifests: []string{"-"}, Stdin: strings.NewReader(text)}, Matrix: []string{"80/TCP"}, All: true})
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "\n  x/apart  + 0  E 0  I 80  X 0\n")
	require.Contains(t, stdout, "\n  x/d-0    + 80  E 0  I 0  X 0\n")
}

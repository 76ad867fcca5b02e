package explain_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
)

var update = flag.Bool("update", false, "write the golden files anew")

// taken is when the dumps of the tests were taken.
var taken = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// snapshot returns the dump of testdata/cluster.yaml, as node n1 sees it.
func snapshot(t testing.TB) (state.Dump, explain.Places) {
	t.Helper()
	d, places, err := cluster.Snapshot(t.Context(), cluster.Options{Manifests: []string{"testdata/cluster.yaml"}, Node: "n1"})
	require.NoError(t, err)
	d.Time = taken
	return d, places
}

func set(t testing.TB, d *state.Dump, name string) *state.SetDump {
	t.Helper()
	for i := range d.Sets {
		if d.Sets[i].Name == name {
			return &d.Sets[i]
		}
	}
	t.Fatalf("no set %s", name)
	return nil
}

func endpoint(t testing.TB, d *state.Dump, pod string) *state.EndpointDump {
	t.Helper()
	for i := range d.Endpoints {
		if d.Endpoints[i].Pod == pod {
			return &d.Endpoints[i]
		}
	}
	t.Fatalf("no endpoint of %s", pod)
	return nil
}

const ago = 4 * time.Minute

// TestExplanations has the answers as a person reads them.
func TestExplanations(t *testing.T) {
	for _, tc := range []struct {
		name, question string
		change         func(*testing.T, *state.Dump)
	}{
		{"blocked", "x/web->z/db:5432/TCP", nil},
		{"allowed", "10.0.1.1->z/db:5432/TCP", nil},
		{"two-allow", "10.0.1.1->z/db:5432/TCP", func(_ *testing.T, d *state.Dump) {
			for i := range d.Endpoints {
				e := &d.Endpoints[i]
				for _, a := range e.Applied {
					if a.ID == "azure-acl-z.db" && a.LocalPorts == "5432" {
						a.ID = "azure-acl-z.more"
						e.Applied, e.Wanted = append(e.Applied, a), append(e.Wanted, a)
						break
					}
				}
			}
		}},
		{"port", "z/cache-0->z/db:5432/TCP", nil},
		{"namespace", "x/web->z/cache-0:80/TCP", nil},
		{"address", "172.20.0.1->z/db:5432/TCP", nil},
		{"open", "z/db->x/web:80/TCP", nil},
		{"node", "node->z/db:5432/TCP", nil},
		{"to-node", "z/db->node:443/TCP", nil},
		{"host-network", "x/host->z/db:5432/TCP", nil},
		{"another-node", "x/web->x/far:80/TCP", nil},
		{"two-other-nodes", "x/far->10.0.1.2:80/TCP", func(_ *testing.T, d *state.Dump) {
			d.Pods = append(d.Pods, state.PodDump{Pod: "x/farther", Addr: "10.0.1.2", Owner: true})
		}},
		{"itself", "z/db->z/db:5432/TCP", nil},
		{"no-endpoint", "x/far->x/web:80/TCP", func(_ *testing.T, d *state.Dump) {
			for i := range d.Pods {
				d.Pods[i].Endpoints = nil
			}
		}},
		{"shared-address", "x/old->z/db:5432/TCP", func(_ *testing.T, d *state.Dump) {
			d.Pods = append(d.Pods, state.PodDump{Pod: "x/old", Addr: "10.0.0.1", Local: true})
		}},
		{"set-is-late", "x/far->z/db:5432/TCP", func(t *testing.T, d *state.Dump) {
			s := set(t, d, "podlabel-app:web")
			s.Missing, s.Surplus, s.Dirty, s.Since = []string{"10.0.1.1"}, []string{"10.0.0.1"}, true, taken.Add(-ago)
			d.Warnings = []state.Warning{
				{Object: "n1", Kind: "Node", Reason: state.ReasonHNSUnavailable, Message: "sets could not be written"},
				{Object: "a/other", Kind: "NetworkPolicy", Reason: state.ReasonHNSRejected, Message: "of no interest"},
			}
		}},
		{"set-is-late-and-open", "x/web->z/db:5432/TCP", func(t *testing.T, d *state.Dump) {
			s := set(t, d, "podlabel-app:web")
			s.Missing, s.Surplus, s.Dirty, s.Since = []string{"10.0.1.1"}, []string{"10.0.0.1"}, true, taken.Add(-ago)
		}},
		{"set-is-unknown", "x/web->z/db:5432/TCP", func(t *testing.T, d *state.Dump) {
			s := set(t, d, "podlabel-app:web")
			s.Unknown, s.Since = true, taken.Add(-ago)
		}},
		{"set-is-unfilled", "8.8.8.8->z/cache-0:5432/TCP", func(t *testing.T, d *state.Dump) {
			s := set(t, d, "nslabel-team:blue")
			s.Missing, s.Dirty, s.Since = []string{"empty-emptyhashset"}, true, taken.Add(-ago)
		}},
		{"rules-are-late", "x/web->z/db:5432/TCP", func(t *testing.T, d *state.Dump) {
			ep := endpoint(t, d, "z/db")
			ep.Applied, ep.Since = []hns.ACL{}, taken.Add(-ago)
		}},
		{"rules-are-late-elsewhere", "x/far->z/db:5432/TCP", func(t *testing.T, d *state.Dump) {
			endpoint(t, d, "z/db").Since = taken.Add(-ago)
		}},
		{"rules-are-unknown", "x/web->z/db:5432/TCP", func(t *testing.T, d *state.Dump) {
			ep := endpoint(t, d, "z/db")
			ep.Known, ep.Applied, ep.Maybe, ep.Since = false, []hns.ACL{}, [][]hns.ACL{{}, ep.Wanted}, taken.Add(-ago)
		}},
		{"rules-are-unknown-and-agree", "x/far->z/db:5432/TCP", func(t *testing.T, d *state.Dump) {
			ep := endpoint(t, d, "z/db")
			ep.Known, ep.Applied, ep.Maybe, ep.Since = false, []hns.ACL{}, [][]hns.ACL{{}, ep.Wanted}, taken.Add(-ago)
		}},
		{"policy-is-gone", "10.0.1.1->z/db:5432/TCP", func(t *testing.T, d *state.Dump) {
			ep := endpoint(t, d, "z/db")
			ep.Wanted, ep.Sources, ep.Since = []hns.ACL{}, nil, taken.Add(-ago)
			d.Policies = nil
		}},
		{"block-of-nobody", "x/web->z/db:5432/TCP", func(t *testing.T, d *state.Dump) {
			ep := endpoint(t, d, "z/db")
			ep.Wanted, ep.Sources, ep.Since = []hns.ACL{}, nil, taken.Add(-ago)
			d.Policies = nil
		}},
		{"foreign-rule", "x/web->168.63.129.16:80/TCP", nil},
		{"no-default", "x/web->8.8.8.8:80/TCP", func(t *testing.T, d *state.Dump) {
			ep := endpoint(t, d, "x/web")
			ep.ForeignRules = ep.ForeignRules[:1]
			ep.ForeignRules[0].Direction = hns.In
		}},
		{"bare", "x/web->8.8.8.8:80/TCP", func(t *testing.T, d *state.Dump) { endpoint(t, d, "x/web").ForeignRules = nil }},
		{"tiered", "x/web->8.8.8.8:80/TCP", func(t *testing.T, d *state.Dump) { endpoint(t, d, "x/web").Tiered = true }},
		{"strange-set", "x/web->z/db:5432/TCP", func(t *testing.T, d *state.Dump) {
			ep := endpoint(t, d, "z/db")
			ep.Applied = append(ep.Applied, hns.ACL{
				ID: "azure-acl-z.db", Action: hns.Allow, Direction: hns.In, Priority: 222, LocalAddresses: "azure-npm-strange",
			})
		}},
		{"another-value", "x/web->z/db:5432/TCP", func(_ *testing.T, d *state.Dump) {
			for _, p := range d.Policies {
				if p.Policy == "z/db" { // no value is asked for, and to be without is no way either
					p.Spec.Ingress[0].From[0].PodSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: "app", Operator: metav1.LabelSelectorOpExists},
						{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"webb", ""}},
					}}
				}
			}
		}},
		{"hostile", "x/web->z/db:5432/TCP", func(_ *testing.T, d *state.Dump) {
			for i := range d.Pods {
				if d.Pods[i].Pod == "x/web" {
					d.Pods[i].Labels = map[string]string{"app": "\x1b[2Jallowed\nALLOWED"}
				}
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, places := snapshot(t)
			if tc.change != nil {
				tc.change(t, &d)
			}
			q, err := explain.Parse(tc.question)
			require.NoError(t, err)
			a, err := explain.Explain(d, q, places)
			require.NoError(t, err)
			var b strings.Builder
			require.NoError(t, a.WriteText(&b))
			golden(t, tc.name+".txt", b.String())
			text, err := json.Marshal(a)
			require.NoError(t, err)
			require.NotContains(t, string(text), "null", "a list without entries is []")
		})
	}
}

// TestDeciderOfAPolicyThatIsGone: its rule is still in HNS, and decides.
func TestDeciderOfAPolicyThatIsGone(t *testing.T) {
	d, _ := snapshot(t)
	d.Policies = nil
	a, err := explain.Explain(d, explain.Question{From: "10.0.1.1", To: "z/db", Port: 5432, Protocol: policy.TCP}, nil)
	require.NoError(t, err)
	require.Equal(t, explain.Allowed, a.Ingress.Actual.Verdict)
	require.Equal(t, "z/db", a.Ingress.Actual.Policy)
}

// TestChangesThatDoNotHelp checks that no change is suggested when the policy is closed, or when a rule
// of another program blocks the connection with and without the change.
func TestChangesThatDoNotHelp(t *testing.T) {
	const question = "z/cache-0->z/db:5432/TCP" // another port would be allowed
	warn := func(reason state.Reason) func(*testing.T, *state.Dump) {
		return func(_ *testing.T, d *state.Dump) {
			d.Warnings = []state.Warning{{Object: "z/cache", Kind: "NetworkPolicy", Reason: reason}}
		}
	}
	for name, tc := range map[string]struct {
		change func(*testing.T, *state.Dump)
		helps  bool
	}{
		"as it is":    {func(*testing.T, *state.Dump) {}, true},
		"rejected":    {warn(state.ReasonHNSRejected), false},
		"over budget": {warn(state.ReasonOverBudget), false},
		"foreign": {func(t *testing.T, d *state.Dump) {
			ep := endpoint(t, d, "z/cache-0")
			ep.ForeignRules = append(ep.ForeignRules, hns.ACL{Action: hns.Block, Direction: hns.Out, Priority: 100})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, places := snapshot(t)
			tc.change(t, &d)
			q, err := explain.Parse(question)
			require.NoError(t, err)
			a, err := explain.Explain(d, q, places)
			require.NoError(t, err)
			require.Equal(t, explain.Blocked, a.Egress.Actual.Verdict)
			require.Equal(t, tc.helps, len(a.Egress.Misses) > 0, a.Egress.Misses)
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), got))
}

func TestNoEnd(t *testing.T) {
	for question, want := range map[string]string{
		"x/web->z/nobody:1/TCP": "z/nobody cannot be asked about: there is no such pod",
		"x/web->z/cache:1/TCP":  "z/cache cannot be asked about: there is no such pod; there is z/cache-0",
		"x/db->z/db:1/TCP":      "x/db cannot be asked about: there is no such pod; there is z/db",
		"x/new->z/db:1/TCP":     "x/new cannot be asked about: the pod has no IPv4 address, or none yet; WinNPM judges IPv4 only",
		"x/done->z/db:1/TCP":    "x/done cannot be asked about: the pod has finished, its address is given up",
	} {
		d, _ := snapshot(t)
		q, err := explain.Parse(question)
		require.NoError(t, err)
		_, err = explain.Explain(d, q, nil)
		require.ErrorIs(t, err, explain.ErrNoEnd)
		require.EqualError(t, err, want)
	}
	_, err := explain.Explain(state.Dump{NodeAddrs: []string{"fd00::1", "x"}}, explain.Question{From: explain.Node, To: "10.0.0.1"}, nil)
	require.EqualError(t, err, "the node cannot be asked about: no address of it is known")
	_, err = explain.Explain(state.Dump{Pods: []state.PodDump{{Pod: "x/web", Addr: "fd00::1"}}}, explain.Question{From: "10.0.0.1", To: "x/web"}, nil)
	require.EqualError(t, err, `x/web cannot be asked about: its address "fd00::1" is none`)
}

func TestParse(t *testing.T) {
	for text, want := range map[string]explain.Question{
		"x/web -> z/db:5432/TCP":     {From: "x/web", To: "z/db", Port: 5432, Protocol: "TCP"},
		"10.0.0.1->node:53/udp":      {From: "10.0.0.1", To: "node", Port: 53, Protocol: "UDP"},
		" node->  x/web.1 : 9/sctp ": {From: "node", To: "x/web.1", Port: 9, Protocol: "SCTP"},
	} {
		q, err := explain.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, q)
	}
	for text, want := range map[string]string{
		"x/web":                   "write FROM->TO:PORT/PROTO, like shop/web->shop/db:5432/TCP",
		"x/web->z/db":             "write FROM->TO:PORT/PROTO, like shop/web->shop/db:5432/TCP",
		"web->z/db:1/TCP":         `"web" is neither namespace/pod nor an IPv4 address`,
		"x/->z/db:1/TCP":          `"x/" is neither namespace/pod nor an IPv4 address`,
		"x/a b->z/db:1/TCP":       `"x/a b" is neither namespace/pod nor an IPv4 address`,
		"x/web->fd00::1:1/TCP":    "fd00::1 is no IPv4 address; WinNPM judges IPv4 only",
		"x/web->z/db:0/TCP":       `"0" is no port: a number from 1 to 65535 is`,
		"x/web->z/db:80":          "write PORT/PROTO, like 80/TCP",
		"x/web->z/db:80/ICMP":     `"ICMP" is no protocol: TCP, UDP and SCTP are`,
		"x/web->z/d\x1bb:80/ICMP": `"z/d\x1bb" is neither namespace/pod nor an IPv4 address`,
	} {
		q, err := explain.Parse(text)
		require.EqualError(t, err, want)
		require.Zero(t, q)
	}
}

package simulate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// claimed are pods that claim one address, a node's address, and addresses twice over.
const claimed = `
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 10.9.0.1}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: old, labels: {app: old}}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.1, startTime: '2026-01-01T00:00:00Z'}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: new, labels: {app: new}}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.1, startTime: '2026-01-02T00:00:00Z'}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: other, labels: {app: other}}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.2}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: z, name: node}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.9.0.1}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: new}, spec: {podSelector: {matchLabels: {app: new}}, ingress: [{from: [{podSelector: {matchLabels: {app: old}}}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: out}, spec: {podSelector: {matchLabels: {app: old}}, policyTypes: [Egress]}}
`

// TestTraceAsksTwoPods: with the endpoints of its two ends alone, a trace says the same as
// with those of all pods, word for word.
func TestTraceAsksTwoPods(t *testing.T) {
	file := filepath.Join(t.TempDir(), "claimed.yaml")
	require.NoError(t, os.WriteFile(file, []byte(claimed), 0o600))
	for manifests, contested := range map[string]int{
		small: 0, "../../examples/shop": 0, "../../examples/tiers": 0, "../explain/testdata/cluster.yaml": 0, file: 3,
	} {
		t.Run(manifests, func(t *testing.T) {
			o := Options{Manifests: []string{manifests}}
			whole, places, err := Snapshot(t.Context(), o)
			require.NoError(t, err)
			ends := []string{explain.Node, "8.8.8.8"}
			for _, p := range whole.Pods {
				ends = append(ends, p.Pod)
				if len(ends)%3 == 0 && p.Addr != "" {
					ends = append(ends, p.Addr)
				}
			}
			for i, from := range ends {
				to := ends[(i*5+3)%len(ends)]
				o.Ends = []string{from, to}
				only, _, err := Snapshot(t.Context(), o)
				require.NoError(t, err)
				require.LessOrEqual(t, locals(only), contested+2)
				for _, port := range []uint16{80, 5432} {
					q := explain.Question{From: from, To: to, Port: port, Protocol: policy.TCP}
					require.Equal(t, answered(whole, q, places), answered(only, q, places), "%s to %s", from, to)
				}
			}
		})
	}
}

// locals counts the pods that have endpoints on the simulated node.
func locals(d state.Dump) int {
	n := 0
	for _, p := range d.Pods {
		if p.Local && !p.HostNetwork {
			n++
		}
	}
	return n
}

func answered(d state.Dump, q explain.Question, places explain.Places) string {
	a, err := explain.Explain(d, q, places)
	a.Time = time.Time{}
	text, wrong := json.Marshal(a)
	return fmt.Sprint(string(text), err, wrong)
}

// TestATraceOfThousands: what is made for a trace does not grow with the pods that nobody
// asked about.
func TestATraceOfThousands(t *testing.T) {
	calls := func(replicas int) int {
		o := Options{Manifests: []string{"-"}, Stdin: strings.NewReader(thousands(replicas)), Ends: []string{"x/d-0", "x/apart"}}
		n := 0
		require.NoError(t, settled(t.Context(), o, settling{allMakers: true}, func(s *session) error {
			for _, made := range s.sim.Counts() {
				n += made
			}
			require.Len(t, s.sim.Endpoints(), 2)
			return nil
		}))
		return n
	}
	require.Equal(t, calls(10), calls(2000))
}

// thousands is a Deployment of so many pods and one pod beside it, with a policy.
func thousands(replicas int) string {
	return fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: x}, spec: {replicas: %d, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}\n---\n"+
		"{apiVersion: v1, kind: Pod, metadata: {name: apart, namespace: x}, spec: {containers: [{name: c, image: i}]}}\n---\n"+
		"{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {podSelector: {matchLabels: {a: b}}, ingress: [{from: [{podSelector: {matchLabels: {a: b}}}]}]}}\n", replicas)
}

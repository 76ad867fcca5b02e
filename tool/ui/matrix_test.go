package ui

import (
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// pod returns one of this node that owns its address.
func pod(name, addr string) state.PodDump {
	return state.PodDump{Pod: name, Addr: addr, Local: true, Owner: true}
}

// TestPorts lists each port and range that a pod or a policy mentions, and a port that none does.
func TestPorts(t *testing.T) {
	web := pod("x/web", "10.0.0.1")
	web.Ports = []string{"http:8080/TCP", "dns:53/UDP", "bad", ":0/TCP"}
	last, number, protocol := int32(65535), intstr.FromInt32(65000), networkingv1.PolicyTypeEgress
	name := intstr.FromString("http")
	mentioned, other := portsOf(&state.Dump{
		Pods: []state.PodDump{web},
		Policies: []state.PolicyDump{{Policy: "x/p"}, {Policy: "x/q", Spec: &networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{protocol},
			Egress:      []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &number, EndPort: &last}, {Port: &name}}}},
		}}},
	})
	require.Equal(t, []string{"8080/TCP", "65000/TCP", "53/UDP"}, mentioned)
	require.Equal(t, "64999/TCP", other)
	mentioned, other = portsOf(&state.Dump{})
	require.Empty(t, mentioned)
	require.Equal(t, "65535/TCP", other)
}

// TestRepresentatives: within a workload it is about two of its pods.
func TestRepresentatives(t *testing.T) {
	c := explain.New(state.Dump{Pods: []state.PodDump{pod("x/a-0", "10.0.0.1"), pod("x/a-1", "10.0.0.2"), pod("y/b", "10.0.0.3")}})
	all := entriesOf(c)
	for _, tc := range []struct {
		from, to int
		want     string
	}{{0, 0, "x/a-0 x/a-1"}, {0, 1, "x/a-0 y/b"}, {1, 0, "y/b x/a-0"}, {1, 1, "y/b y/b"}} {
		from, to := representatives(all[tc.from], all[tc.to])
		require.Equal(t, tc.want, from+" "+to)
		want := explain.Unknown // no endpoints
		if from == to {
			want = explain.Allowed
		}
		spans, whole := spansOf(c, all[tc.from], all[tc.to], explain.Range{Protocol: policy.TCP, First: 80, Last: 80}, 1)
		require.True(t, whole)
		actual, wanted := spans[0].Egress.With(spans[0].Ingress)
		require.Equal(t, []explain.Verdict{want, want}, []explain.Verdict{actual, wanted})
	}
}

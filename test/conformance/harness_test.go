package conformance

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/network-policy-api/conformance/utils/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/controllers"
)

// probe is a connection and what comes of it.
type probe struct {
	from, to string // pods
	protocol string
	port     int
	word     string // of agnhost; "": connected
}

func (p probe) String() string {
	return fmt.Sprintf("%s to %s:%d/%s", p.from, p.to, p.port, p.protocol)
}

// open is what there is without policies.
var open = []probe{
	{"rod-0", "cone-1", "tcp", 80, ""},
	{"rod-0", "cone-0", "tcp", 8080, ""},
	{"rod-0", "cone-1", "udp", 53, ""},
	{"rod-0", "cone-1", "sctp", 9003, ""},
	{"rod-0", "cone-1", "tcp", 81, "REFUSED\n"},
	{"rod-0", "cone-1", "udp", 80, "REFUSED\n"},
	{"rod-0", "nest-1", "tcp", 80, ""},
	{"nest-0", "cone-1", "tcp", 80, ""},
	{"rod-0", "nobody", "tcp", 80, "TIMEOUT\n"},
}

// policies are of both namespaces, by namespace.
var policies = map[string]string{
	"east": `{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {side: west}}}], ports: [{port: 80}, {port: 53, protocol: UDP}]}]}`,
	"west": `{podSelector: {matchLabels: {number: "1"}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.240.0.0/16}}]}]}`,
}

// closed is what there is with policies.
var closed = []probe{
	{"rod-0", "cone-1", "tcp", 80, ""},
	{"rod-0", "cone-0", "tcp", 80, ""},
	{"rod-0", "cone-1", "udp", 53, ""},
	{"rod-0", "cone-1", "tcp", 8080, "TIMEOUT\n"},
	{"rod-0", "cone-1", "sctp", 9003, "TIMEOUT\n"},
	{"rod-0", "cone-1", "tcp", 81, "TIMEOUT\n"},
	{"cone-0", "cone-1", "tcp", 80, "TIMEOUT\n"},
	{"cone-0", "cone-0", "tcp", 8080, ""},
	{"nest-0", "cone-1", "tcp", 80, "TIMEOUT\n"},
	{"cone-0", "rod-1", "tcp", 80, ""},
	{"rod-1", "cone-0", "tcp", 80, "TIMEOUT\n"},
	{"rod-1", "nest-0", "tcp", 80, ""},
	{"rod-1", "nest-0", "tcp", 81, "REFUSED\n"},
}

// TestHarness: exec through the API server says what NetworkPolicies mean, which is
// known without the suite.
func TestHarness(t *testing.T) {
	c := newCluster(t, nil)
	pods := c.populate()
	require.Empty(t, differences(t, pods, open))
	apply(t)
	require.Empty(t, differences(t, pods, closed))
}

// TestHarnessFindsWrongAgents: the verdicts are the agents', not the harness's.
func TestHarnessFindsWrongAgents(t *testing.T) {
	none := func(client rest.Interface, resource string) cache.ListerWatcher {
		return cache.NewListWatchFromClient(client, resource, "", fields.OneTermEqualSelector("metadata.name", "none"))
	}
	for name, test := range map[string]struct {
		wrong tamper
		want  []string // differences
	}{
		"that sees no policies": {
			func(s *controllers.Source) { s.Policies = none(kube.NetworkingV1().RESTClient(), "networkpolicies") },
			[]string{
				"rod-0 to cone-1:8080/tcp: \"\"", "rod-0 to cone-1:9003/sctp: \"\"", "rod-0 to cone-1:81/tcp: \"REFUSED\\n\"",
				"cone-0 to cone-1:80/tcp: \"\"", "nest-0 to cone-1:80/tcp: \"\"", "rod-1 to cone-0:80/tcp: \"\"",
			},
		},
		"that sees no namespaces": {
			func(s *controllers.Source) { s.Namespaces = none(kube.CoreV1().RESTClient(), "namespaces") },
			[]string{"rod-0 to cone-1:80/tcp: \"TIMEOUT\\n\"", "rod-0 to cone-0:80/tcp: \"TIMEOUT\\n\"", "rod-0 to cone-1:53/udp: \"TIMEOUT\\n\""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, test.wrong)
			pods := c.populate()
			apply(t)
			require.Equal(t, test.want, differences(t, pods, closed))
		})
	}
}

// populate makes two namespaces with two pods each, and pods in the network of their
// hosts. It returns the pods by name.
func (c *cluster) populate() map[string]*corev1.Pod {
	ctx := c.t.Context()
	pods := map[string]*corev1.Pod{}
	for namespace, name := range map[string]string{"west": "rod", "east": "cone", "host": "nest"} {
		_, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"side": namespace}}}, metav1.CreateOptions{})
		require.NoError(c.t, err)
		require.NoError(c.t, account(ctx, namespace))
		for i := range replicas {
			pod := fmt.Sprintf("%s-%d", name, i)
			require.NoError(c.t, c.runPod(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod, Labels: map[string]string{"number": fmt.Sprint(i)}},
				Spec: corev1.PodSpec{HostNetwork: namespace == "host", Containers: []corev1.Container{
					{Name: name + "-client", Image: "none"},
					serving("tcp-80", "/agnhost serve-hostname --tcp --http=false --port 80"),
					serving("both", "/agnhost netexec --http-port 8080 --udp-port 53"),
					{Name: "sctp", Image: "none", Env: []corev1.EnvVar{{Name: "SERVE_SCTP_PORT_9003", Value: "x"}}},
				}},
			}, i))
			pods[pod], err = kube.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
			require.NoError(c.t, err)
		}
	}
	return pods
}

func serving(name, line string) corev1.Container {
	return corev1.Container{Name: name, Image: "none", Command: []string{"/bin/bash", "-c", line}}
}

// apply creates the policies.
func apply(t *testing.T) {
	for namespace, text := range policies {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy"}}
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &policy.Spec))
		_, err := kube.NetworkingV1().NetworkPolicies(namespace).Create(t.Context(), policy, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// differences returns what execs say that the probes do not. Agents that follow late
// are asked again for some seconds, as the suite does.
func differences(t *testing.T, pods map[string]*corev1.Pod, probes []probe) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var last []string
	for {
		var all []string
		for _, p := range probes {
			if said := say(t, pods, p); said != p.word {
				all = append(all, fmt.Sprintf("%s: %q", p, said))
			}
		}
		if len(all) == 0 || ctx.Err() != nil && len(all) == len(last) {
			return all
		}
		last = all
	}
}

// say runs agnhost in the client of a pod, with the suite's own function.
func say(t *testing.T, pods map[string]*corev1.Pod, p probe) string {
	t.Helper()
	addr := netip.MustParseAddr("10.244.9.9") // nobody's
	if to := pods[p.to]; to != nil {
		addr = netip.MustParseAddr(to.Status.PodIP)
	}
	from := pods[p.from]
	stdout, stderr, err := kubernetes.RunCommandFromPod(kube, admin, from.Namespace, from.Name,
		[]string{"/agnhost", "connect", "--timeout=1s", "--protocol=" + p.protocol, netip.AddrPortFrom(addr, uint16(p.port)).String()})
	require.Empty(t, stdout)
	if stderr == "" {
		require.NoError(t, err)
	} else {
		require.ErrorContains(t, err, "exit code 1")
	}
	return stderr
}

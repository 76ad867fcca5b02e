package cluster_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/tool/cluster"
)

const podText = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x}\n"

func pod(spec string) string { return podText + "spec: " + spec + "\n" }

func podStatus(status string) string { return pod("{}") + "status: " + status + "\n" }

func podNamed(name string) string { return strings.Replace(podText, "name: p,", "name: "+name+",", 1) }

func workload(version, kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: x}\nspec: %s\n", version, kind, name, spec)
}

const twoNodes = `apiVersion: v1
kind: NodeList
items:
- metadata: {name: n2, labels: {os: windows}}
  status: {addresses: [{type: Hostname, address: n2}, {type: InternalIP, address: 192.168.0.2}, {type: InternalIP, address: 192.168.0.3}]}
- metadata: {name: n1, labels: {os: linux}}
---
`

// worldOn is the cluster of a text, of whose nodes one is of interest.
func worldOn(t *testing.T, text, node string) cluster.World {
	t.Helper()
	w, err := cluster.Read(t.Context(), cluster.Options{Manifests: []string{"-"}, Stdin: strings.NewReader(text), Node: node})
	require.NoError(t, err)
	return w
}

// podNames returns namespace/name@node of each pod.
func podNames(w cluster.World) (out []string) {
	for _, p := range w.Pods {
		out = append(out, p.Key().String()+"@"+p.Node)
	}
	return out
}

// TestNamespaces: those that are only mentioned are there as well.
func TestNamespaces(t *testing.T) {
	w := worldOf(t, strings.Join([]string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: z, labels: {a: b, kubernetes.io/metadata.name: lie}}\n",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: of-policy}\nspec: {podSelector: {}}\n",
		"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s, namespace: of-workload}\nspec: {replicas: 0}\n",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: z}\n",
	}, "---\n"))
	var names []string
	for _, ns := range w.Namespaces {
		names = append(names, ns.Name)
		require.Equal(t, ns.Name, ns.Labels["kubernetes.io/metadata.name"])
	}
	require.Equal(t, []string{"default", "of-policy", "of-workload", "z"}, names)
	require.Equal(t, "b", w.Namespaces[3].Labels["a"])
}

func TestWorkloads(t *testing.T) {
	owned := func(kind, owner string) string {
		return ", ownerReferences: [{apiVersion: apps/v1, kind: " + kind + ", name: " + owner + ", uid: u, controller: true}]"
	}
	for _, c := range []struct {
		name, text, node string
		want             []string
	}{
		{"one by default", workload("apps/v1", "Deployment", "d", "{}"), "", []string{"x/d-0@"}},
		{"none", workload("apps/v1", "Deployment", "d", "{replicas: 0}"), "", nil},
		{"null is the default", workload("apps/v1", "ReplicaSet", "r", "{replicas: null}"), "", []string{"x/r-0@"}},
		{"two on the node", workload("apps/v1", "StatefulSet", "s", "{replicas: 2}"), "n1", []string{"x/s-0@n1", "x/s-1@n1"}},
		{"template says otherwise", workload("apps/v1", "ReplicaSet", "r", "{template: {spec: {nodeName: n2}}}"), "n1", []string{"x/r-0@n2"}},
		{"job", workload("batch/v1", "Job", "j", "{parallelism: 2}"), "", []string{"x/j-0@", "x/j-1@"}},
		{"job by default", workload("batch/v1", "Job", "j", "{}"), "", []string{"x/j-0@"}},
		{"daemon without nodes", workload("apps/v1", "DaemonSet", "d", "{}"), "", []string{"x/d-0@"}},
		{"daemon on the node", workload("apps/v1", "DaemonSet", "d", "{}"), "n1", []string{"x/d-0@n1"}},
		{"daemon on each", twoNodes + workload("apps/v1", "DaemonSet", "d", "{}"), "", []string{"x/d-0@n1", "x/d-1@n2"}},
		{"daemon on each, by option", twoNodes + workload("apps/v1", "DaemonSet", "d", "{}"), "n2", []string{"x/d-0@n1", "x/d-1@n2"}},
		{"daemon on some", twoNodes + workload("apps/v1", "DaemonSet", "d", "{template: {spec: {nodeSelector: {os: windows}}}}"), "", []string{"x/d-0@n2"}},
		{"daemon on none is one", twoNodes + workload("apps/v1", "DaemonSet", "d", "{template: {spec: {nodeSelector: {os: plan9}}}}"), "", []string{"x/d-0@"}},
		{
			"names that are taken", podNamed("d-0") + "---\n" + workload("apps/v1", "Deployment", "d", "{replicas: 2}") + "---\n" + workload("apps/v1", "StatefulSet", "d", "{replicas: 2}"), "",
			[]string{"x/d-0@", "x/d-1@", "x/d-2@", "x/d-3@", "x/d-4@"},
		},
		{
			"pods are there already", workload("apps/v1", "DaemonSet", "d", "{}") +
				"---\napiVersion: v1\nkind: Pod\nmetadata: {name: d-x7k2p, namespace: x" + owned("DaemonSet", "d") + "}\n", "",
			[]string{"x/d-x7k2p@"},
		},
		{
			"replica sets are there already", workload("apps/v1", "Deployment", "d", "{replicas: 3}") +
				"---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: d-1, namespace: x" + owned("Deployment", "d") + "}\nspec: {replicas: 0}\n" +
				"---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: d-2, namespace: x" + owned("Deployment", "d") + "}\nspec: {replicas: 2}\n", "",
			[]string{"x/d-2-0@", "x/d-2-1@"},
		},
		{
			"pods are there already, and their replica set is not", workload("apps/v1", "Deployment", "d", "{replicas: 3}") +
				"---\napiVersion: v1\nkind: Pod\nmetadata: {name: d-abc-x7k2p, namespace: x, labels: {pod-template-hash: abc}" + owned("ReplicaSet", "d-abc") + "}\n", "",
			[]string{"x/d-abc-x7k2p@"},
		},
		{
			"an owner of another namespace", workload("apps/v1", "DaemonSet", "d", "{}") +
				"---\napiVersion: v1\nkind: Pod\nmetadata: {name: q, namespace: z" + owned("DaemonSet", "d") + "}\n", "",
			[]string{"x/d-0@", "z/q@"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, podNames(worldOn(t, c.text, c.node)))
		})
	}
}

// TestTooMany: a slip in a number of replicas is refused where it stands.
func TestTooMany(t *testing.T) {
	text := workload("apps/v1", "Deployment", "d", "{replicas: 2000000000}")
	_, err := cluster.Read(t.Context(), cluster.Options{Manifests: []string{"-"}, Stdin: strings.NewReader(text)})
	require.EqualError(t, err, "stdin:4: document 1: Deployment x/d: spec: makes more than 150000 pods in total; use fewer")
}

// The pods of a StatefulSet bear these very names in a cluster, so it goes first.
func TestStatefulSetGoesFirst(t *testing.T) {
	w := worldOf(t, workload("apps/v1", "Deployment", "d", "{}")+"---\n"+workload("apps/v1", "StatefulSet", "d", "{}"))
	require.Equal(t, "x/d-0", w.Pods[0].Key().String())
	require.Equal(t, []string{"StatefulSet x/d"}, w.Pods[0].Owners)
}

func TestPodStatus(t *testing.T) {
	for _, c := range []struct{ name, text, node, want string }{
		{"without status", pod("{}"), "", "- 10.231.158.85 runs"},
		{"with an empty one", podStatus("{}"), "", "- 10.231.158.85 runs"},
		{"put on the node", pod("{}"), "n2", "n2 10.231.158.85 runs"},
		{"but not off another", pod("{nodeName: n1}"), "n2", "n1 10.231.158.85 runs"},
		{"no address", podStatus("{phase: Pending}"), "", "- - does not run"},
		{"no address, no phase", podStatus("{message: hello}"), "", "- - does not run"},
		{"pending with an address", podStatus("{phase: Pending, podIP: 10.1.2.3}"), "", "- 10.1.2.3 runs"},
		{"address without phase", podStatus("{podIP: 10.1.2.3}"), "", "- 10.1.2.3 runs"},
		{"addresses only", podStatus("{podIPs: [{ip: 10.1.2.4}, {ip: '2001:db8::4'}]}"), "", "- 10.1.2.4 runs"},
		{"finished", podStatus("{phase: Succeeded}"), "n2", "- - finished"},
		{"failed with an address", podStatus("{phase: Failed, podIP: 10.1.2.3}"), "", "- 10.1.2.3 finished"},
		{"with status and not scheduled", podStatus("{phase: Pending}"), "n2", "- - does not run"},
		{"host network", pod("{hostNetwork: true, nodeName: n2}"), "", "n2 192.168.0.2 runs"},
		{"host network by option", pod("{hostNetwork: true}"), "n2", "n2 192.168.0.2 runs"},
		{"host network, node without address", pod("{hostNetwork: true, nodeName: n1}"), "", "n1 - runs"},
		{"host network, no node", pod("{hostNetwork: true}"), "", "- - runs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := worldOn(t, twoNodes+c.text, c.node).Pods[0]
			state := map[bool]string{true: "runs", false: "does not run"}[p.Running()]
			if p.Finished {
				state = "finished"
			}
			addr := ""
			if p.Addr.IsValid() {
				addr = p.Addr.String()
			}
			require.Equal(t, c.want, fmt.Sprintf("%s %s %s", cmp.Or(p.Node, "-"), cmp.Or(addr, "-"), state))
		})
	}
}

// Addresses do not depend on other pods, and do not fall together with those
// that are given.
func TestAddresses(t *testing.T) {
	alone := worldOf(t, pod("{}")).Pods[0].Addr.String()
	require.Equal(t, "10.231.158.85", alone)

	given := "---\napiVersion: v1\nkind: Pod\nmetadata: {name: other}\nstatus: {%s}\n"
	for text, want := range map[string]string{
		fmt.Sprintf(given, "podIP: 10.231.158.86"):                                                                                   alone,
		fmt.Sprintf(given, "podIP: 10.231.158.85"):                                                                                   "10.231.158.86",
		fmt.Sprintf(given, "hostIP: 10.231.158.85, podIPs: [{ip: 10.231.158.86}]"):                                                   "10.231.158.87",
		"---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {addresses: [{type: InternalIP, address: 10.231.158.85}]}\n": "10.231.158.86",
		fmt.Sprintf(given, "podIP: '2001:db8::1'") + "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {addresses: [{type: Hostname, address: n1.example.com}]}\n": alone,
	} {
		pods := worldOf(t, pod("{}")+text).Pods
		require.Equal(t, want, pods[len(pods)-1].Addr.String(), text)
	}

	seen := map[string]bool{}
	for _, p := range worldOf(t, workload("apps/v1", "Deployment", "d", "{replicas: 5000}")).Pods {
		addr := p.Addr.String()
		require.Regexp(t, `^10\.2(2[4-9]|3[0-9])\.\d+\.\d+$`, addr)
		require.NotRegexp(t, `\.(0|255)$`, addr)
		require.False(t, seen[addr], addr)
		seen[addr] = true
	}
	require.Len(t, seen, 5000)
}

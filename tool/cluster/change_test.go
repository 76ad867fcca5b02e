package cluster_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/manifest"
)

// worldOf is the cluster of a text.
func worldOf(t *testing.T, text string) cluster.World {
	t.Helper()
	return worldOn(t, text, "")
}

// applied is what becomes of a world with the objects of a text.
func applied(t *testing.T, w cluster.World, text string, how cluster.ChangeOptions) cluster.Change {
	t.Helper()
	change, err := apply(t, w, text, how)
	require.NoError(t, err)
	return change
}

// apply is applied for a text that may be refused.
func apply(t *testing.T, w cluster.World, text string, how cluster.ChangeOptions) (cluster.Change, error) {
	t.Helper()
	o, _, err := manifest.Load([]string{"-"}, manifest.Options{Stdin: strings.NewReader(text)})
	require.NoError(t, err)
	return cluster.Apply(w, o, how)
}

// podsOf says name, labels and node of all pods.
func podsOf(w cluster.World) (out []string) {
	for _, p := range w.Pods {
		out = append(out, strings.TrimSuffix(fmt.Sprintf("%s app=%s %s@%s", p.Key(), p.Labels["app"], p.Labels["pod-template-hash"], p.Node), "@"))
	}
	return out
}

func object(kind, name, spec string) string {
	version := map[string]string{"Job": "batch/v1", "CronJob": "batch/v1", "Namespace": "v1", "Pod": "v1", "Node": "v1", "ReplicationController": "v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1"}[kind]
	return fmt.Sprintf("---\n{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: x}, %s}\n", version, kind, name, spec)
}

// made is a workload of some pods.
func made(kind, name, count, app string) string {
	if count != "" {
		count = "replicas: " + count + ", "
	}
	return object(kind, name, "spec: {"+count+"template: {metadata: {labels: {app: "+app+"}}}}")
}

func namespace(name, labels string) string {
	return "---\n{apiVersion: v1, kind: Namespace, metadata: {name: " + name + ", labels: {" + labels + "}}}\n"
}

func node(name, labels string) string {
	return "---\n{apiVersion: v1, kind: Node, metadata: {name: " + name + ", labels: {" + labels + "}}}\n"
}

// TestApply: what becomes of pods, and what is said of it.
func TestApply(t *testing.T) {
	finished := object("Pod", "p", "status: {phase: Succeeded, podIP: 10.0.0.1}")
	ofJob := "---\n{apiVersion: v1, kind: Pod, metadata: {name: j-a, namespace: x, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}]}, status: {phase: Succeeded, podIP: 10.0.0.1}}\n"
	for _, c := range []struct {
		name, before, apply string
		how                 cluster.ChangeOptions
		want, said          []string
	}{
		{
			"labels of a template", made("Deployment", "web", "2", "old"), made("Deployment", "web", "2", "new"), cluster.ChangeOptions{},
			[]string{"x/web-0 app=new ", "x/web-1 app=new "}, []string{"Deployment x/web changed 2"},
		},
		{
			"nothing", made("Deployment", "web", "2", "old"), made("Deployment", "web", "2", "old"), cluster.ChangeOptions{},
			[]string{"x/web-0 app=old ", "x/web-1 app=old "}, []string{"Deployment x/web unchanged 2"},
		},
		{
			"more", made("Deployment", "web", "1", "a"), made("Deployment", "web", "3", "a"), cluster.ChangeOptions{},
			[]string{"x/web-0 app=a ", "x/web-1 app=a ", "x/web-2 app=a "}, []string{"Deployment x/web changed 3 +2"},
		},
		{
			"fewer, the last of them", made("StatefulSet", "db", "12", "a"), made("StatefulSet", "db", "2", "a"), cluster.ChangeOptions{},
			[]string{"x/db-0 app=a ", "x/db-1 app=a "}, []string{"StatefulSet x/db changed 12 -10"},
		},
		{
			"as many as there are", made("Deployment", "web", "2", "a"), made("Deployment", "web", "", "b"), cluster.ChangeOptions{},
			[]string{"x/web-0 app=b ", "x/web-1 app=b "}, []string{"Deployment x/web changed 2"},
		},
		{
			"a new one", "", made("Deployment", "web", "", "a"), cluster.ChangeOptions{},
			[]string{"x/web-0 app=a "}, []string{"Deployment x/web new 1 +1"},
		},
		{
			"one name, two kinds", made("StatefulSet", "web", "1", "a"), made("StatefulSet", "web", "1", "a") + made("Deployment", "web", "1", "b"), cluster.ChangeOptions{},
			[]string{"x/web-0 app=a ", "x/web-1 app=b "}, []string{"StatefulSet x/web unchanged 1", "Deployment x/web new 1 +1"},
		},
		{
			"a daemon of a new node", node("n1", "os: w") + object("DaemonSet", "d", "spec: {template: {spec: {nodeSelector: {os: w}}}}"),
			node("n2", "os: w") + node("n3", "") + object("DaemonSet", "d", "spec: {template: {spec: {nodeSelector: {os: w}}}}"), cluster.ChangeOptions{},
			[]string{"x/d-0 app= @n1", "x/d-1 app= @n2"}, []string{"Node n2 new 0", "Node n3 new 0", "DaemonSet x/d changed 2 +1"},
		},
		{
			"a daemon of other nodes", node("n1", "os: w") + node("n2", "") + object("DaemonSet", "d", "spec: {template: {spec: {nodeSelector: {os: w}}}}"),
			node("n1", "") + node("n2", "os: w") + object("DaemonSet", "d", "spec: {template: {spec: {nodeSelector: {os: w}}}}"), cluster.ChangeOptions{},
			[]string{"x/d-1 app= @n2"}, []string{"Node n1 changed 0", "Node n2 changed 0", "DaemonSet x/d changed 2 +1 -1"},
		},
		{"a job that has run", ofJob, object("Job", "j", "spec: {template: {}}"), cluster.ChangeOptions{}, []string{"x/j-a app= "}, []string{"Job x/j unchanged 0"}},
		{"a cron job", "", object("CronJob", "c", "spec: {jobTemplate: {spec: {template: {metadata: {labels: {app: c}}}}}}"), cluster.ChangeOptions{}, []string{"x/c-0 app=c "}, []string{"CronJob x/c new 1 +1"}},
		{"a replication controller", made("ReplicationController", "rc", "2", "a"), made("ReplicationController", "rc", "1", "a"), cluster.ChangeOptions{}, []string{"x/rc-0 app=a "}, []string{"ReplicationController x/rc changed 2 -1"}},
		{"none, as before", made("Deployment", "web", "0", "a"), made("Deployment", "web", "0", "a"), cluster.ChangeOptions{}, nil, []string{"Deployment x/web unchanged 0"}},
		{"some, where there was none", made("Deployment", "web", "0", "a"), made("Deployment", "web", "1", "a"), cluster.ChangeOptions{}, []string{"x/web-0 app=a "}, []string{"Deployment x/web changed 1 +1"}},
		{"a new one of none", "", made("Deployment", "web", "0", "a"), cluster.ChangeOptions{}, nil, []string{"Deployment x/web new 0"}},
		{"a pod", object("Pod", "p", ""), strings.Replace(object("Pod", "p", ""), "namespace: x", "namespace: x, labels: {app: b}", 1), cluster.ChangeOptions{}, []string{"x/p app=b "}, []string{"Pod x/p changed 1"}},
		{"a pod that has ended stays so", finished, object("Pod", "p", ""), cluster.ChangeOptions{}, []string{"x/p app= "}, []string{"Pod x/p unchanged 1"}},
		{"delete a workload", made("Deployment", "web", "2", "a") + object("Pod", "p", ""), made("Deployment", "web", "2", "a"), cluster.ChangeOptions{Delete: true}, []string{"x/p app= "}, []string{"Deployment x/web deleted 2 -2"}},
		{"delete a namespace", made("Deployment", "web", "2", "a"), namespace("x", ""), cluster.ChangeOptions{Delete: true}, nil, []string{"Namespace x deleted 2 -2"}},
		{
			"prune", namespace("x", "a: b") + namespace("other", "") + made("Deployment", "web", "1", "a") + made("StatefulSet", "db", "2", "a") + object("Pod", "p", "") + object("Pod", "q", ""),
			namespace("x", "a: b") + made("Deployment", "web", "1", "a") + object("Pod", "p", ""), cluster.ChangeOptions{Prune: true},
			[]string{"x/p app= ", "x/web-0 app=a "},
			[]string{"Namespace x unchanged 5", "Pod x/p unchanged 1", "Deployment x/web unchanged 1", "Pod x/q deleted 1 -1", "StatefulSet x/db deleted 2 -2", "Namespace other deleted 0"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := worldOf(t, namespace("unused", "")+c.before)
			change := applied(t, w, namespace("unused", "")+c.apply, c.how)
			require.Empty(t, change.Warnings)
			require.Equal(t, c.want, podsOf(change.After))
			var said []string
			for _, o := range change.Objects {
				text := fmt.Sprintf("%s %s %s %d", o.Kind, o.Object, o.Change, o.Pods)
				if o.New > 0 {
					text += fmt.Sprintf(" +%d", o.New)
				}
				if o.Deleted > 0 {
					text += fmt.Sprintf(" -%d", o.Deleted)
				}
				if o.Object != "unused" {
					said = append(said, text)
				}
			}
			require.Equal(t, c.said, said)
		})
	}
}

// A pod keeps what only a cluster gives it: its address, its node, and labels of controllers.
func TestAPodKeepsItsAddress(t *testing.T) {
	w := worldOf(t, object("Pod", "p", "spec: {nodeName: n1}, status: {podIP: 10.0.0.7}")+object("Pod", "q", ""))
	w.Pods[0].Labels = map[string]string{"pod-template-hash": "abc", "app": "old"}
	change := applied(t, w, object("Pod", "p", "spec: {nodeName: n2}, status: {podIP: 10.0.0.8}")+object("Pod", "r", "status: {podIP: 10.0.0.9}")+object("Pod", "s", ""), cluster.ChangeOptions{})
	require.Equal(t, []string{"x/p app= abc@n1", "x/q app= ", "x/r app= ", "x/s app= "}, podsOf(change.After))
	require.Equal(t, "10.0.0.7", change.After.Pods[0].Addr.String())
	require.Equal(t, "10.0.0.9", change.After.Pods[2].Addr.String(), "what a manifest says of a new one")
	taken := []string{change.After.Pods[0].Addr.String(), change.After.Pods[1].Addr.String(), change.After.Pods[2].Addr.String()}
	require.True(t, change.After.Pods[3].Addr.IsValid())
	require.NotContains(t, taken, change.After.Pods[3].Addr.String())
}

// Whoever moves into the network of the node has no address of its own any more, and one who
// moves out gets one.
func TestHostNetwork(t *testing.T) {
	w := worldOf(t, object("Pod", "in", "status: {podIP: 10.0.0.7}")+object("Pod", "out", "spec: {hostNetwork: true}, status: {hostIP: 10.240.0.4, podIP: 10.240.0.4}"))
	change := applied(t, w, object("Pod", "in", "spec: {hostNetwork: true}")+object("Pod", "out", ""), cluster.ChangeOptions{})
	require.False(t, change.After.Pods[0].Addr.IsValid())
	require.True(t, change.After.Pods[1].Addr.IsValid())
	require.NotEqual(t, "10.240.0.4", change.After.Pods[1].Addr.String())
}

// TestLabelsOfOthers: in a cluster, labels that nobody applied stay; the folder of manifests has
// said them all.
func TestLabelsOfOthers(t *testing.T) {
	w := worldOf(t, namespace("x", "team: a, zone: b"))
	change := applied(t, w, namespace("x", "team: c"), cluster.ChangeOptions{})
	require.Equal(t, map[string]string{"team": "c", corev1.LabelMetadataName: "x"}, change.After.Namespaces[0].Labels)
	w.OthersLabels = map[string]map[string]string{"x": {"zone": "b"}}
	change = applied(t, w, namespace("x", "team: c"), cluster.ChangeOptions{})
	require.Equal(t, map[string]string{"team": "c", "zone": "b", corev1.LabelMetadataName: "x"}, change.After.Namespaces[0].Labels)
}

// In a cluster a node keeps the labels and addresses that its kubelet gave it. A dump may not know
// which nodes there are.
func TestNodesOfACluster(t *testing.T) {
	w := worldOf(t, node("n1", "os: w")+node("bare", "")+"---\n{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {addresses: [{type: InternalIP, address: 10.240.0.5}]}}\n")
	w.FromManifests, w.Nodes[0].Labels = false, nil
	text := node("n1", "zone: a") + node("bare", "zone: b") + node("n2", "zone: c")
	change := applied(t, w, text, cluster.ChangeOptions{})
	var got []string
	for _, n := range change.After.Nodes {
		got = append(got, fmt.Sprintf("%s %v %v", n.Name, n.Labels, n.Addrs))
	}
	require.Equal(t, []string{"bare map[zone:b] []", "n1 map[os:w zone:a] []", "n2 map[zone:c] [10.240.0.5]"}, got)
	w.NodesUnknown = true
	for _, remove := range []bool{false, true} {
		change = applied(t, w, text, cluster.ChangeOptions{Delete: remove})
		require.Empty(t, change.Objects)
		require.Len(t, change.Warnings, 3)
		require.EqualValues(t, "NotPlanned", change.Warnings[0].Reason)
	}
}

// With --node, new pods are on that node, and its writes alone are planned.
func TestOneNode(t *testing.T) {
	for one, want := range map[string][]string{"n1": {"n1"}, "": {"", "n1", "n2"}} {
		w := worldOf(t, node("n1", "")+node("n2", ""))
		w.Node = one
		change := applied(t, w, made("Deployment", "web", "1", "a"), cluster.ChangeOptions{})
		require.Equal(t, []string{"x/web-0 app=a @" + one}, []string{podsOf(change.After)[0] + map[string]string{"": "@"}[one]})
		var planned []string
		for _, n := range change.After.Planned() {
			planned = append(planned, n.Name)
		}
		require.Equal(t, want, planned)
	}
}

// What a change leaves as it is, is said.
func TestWarningsOfAChange(t *testing.T) {
	reasons := func(c cluster.Change) (out []string) {
		for _, w := range c.Warnings {
			out = append(out, fmt.Sprintf("%s %s %s", w.Reason, w.Kind, w.Object))
		}
		return out
	}
	w := worldOf(t, namespace("x", "a: b")+made("Deployment", "web", "1", "a"))
	change := applied(t, w, made("Deployment", "wbe", "1", "a"), cluster.ChangeOptions{Delete: true})
	require.Equal(t, []string{"NoPods Deployment x/wbe"}, reasons(change))
	change = applied(t, w, made("Deployment", "web", "1", "a"), cluster.ChangeOptions{Prune: true})
	require.Equal(t, []string{"NamespaceKept Namespace x"}, reasons(change))
	require.Equal(t, "b", change.After.Namespaces[0].Labels["a"])
	w.OwnersUnknown = true
	change = applied(t, w, made("Deployment", "web", "3", "a")+namespace("x", "a: c"), cluster.ChangeOptions{})
	require.Equal(t, []string{"NotPlanned Deployment x/web"}, reasons(change))
	require.Equal(t, "c", change.After.Namespaces[0].Labels["a"], "the rest is planned")
}

// TestStatusOfAPod: a change tells of a pod that its status leaves out, also if the world is one of a dump.
func TestStatusOfAPod(t *testing.T) {
	for status, want := range map[string]string{
		"podIP: 'fd00::1', phase: Running":                           "NoIPv4",
		"podIP: 10.0.0.1, phase: Succeeded":                          "NotPlanned",
		"phase: Running":                                             "NotPlanned",
		"podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]": "",
	} {
		change := applied(t, cluster.World{OwnersUnknown: true}, object("Pod", "p", "status: {"+status+"}"), cluster.ChangeOptions{})
		got := ""
		for _, w := range change.Warnings {
			got += string(w.Reason)
		}
		require.Equal(t, want, got, status)
	}
	ending := "---\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: x, deletionTimestamp: '2026-01-01T00:00:00Z'}, status: {podIP: 10.0.0.1}}\n"
	require.Empty(t, applied(t, cluster.World{}, ending, cluster.ChangeOptions{}).Warnings)
}

func TestDeleteWhatIsNotThere(t *testing.T) {
	w := worldOf(t, namespace("x", ""))
	for text, want := range map[string]string{object("Pod", "p", ""): "Pod x/p", namespace("other", ""): "Namespace other", node("n1", ""): "Node n1"} {
		_, err := apply(t, w, text, cluster.ChangeOptions{Delete: true})
		require.ErrorIs(t, err, cluster.GoneError(want))
		require.EqualError(t, err, want+" is not there, so there is nothing to delete; check namespace and name")
	}
	_, err := apply(t, w, "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {podSelector: {}}}", cluster.ChangeOptions{Delete: true})
	require.EqualError(t, err, "NetworkPolicy x/p is not there, so there is nothing to delete; check namespace and name")
	_, err = apply(t, w, made("Deployment", "web", "2000000000", "a"), cluster.ChangeOptions{})
	require.ErrorContains(t, err, "makes more than 150000 pods in total")
}

// TestPruneIsTheOtherFolder: held against a folder, one world becomes the other, but for made-up
// addresses and UIDs of its pods.
func TestPruneIsTheOtherFolder(t *testing.T) {
	shop := filepath.Join("..", "..", "examples", "shop")
	files, err := os.ReadDir(shop)
	require.NoError(t, err)
	var texts []string
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(shop, f.Name()))
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	whole := worldOf(t, strings.Join(texts, "\n---\n"))
	for i, f := range files {
		if i == 0 { // the nodes stay, and with them what is on each
			continue
		}
		part := strings.Join(slices.Delete(slices.Clone(texts), i, i+1), "\n---\n")
		want := worldOf(t, part)
		for text, becomes := range map[string][2]cluster.World{part: {whole, want}, strings.Join(texts, "\n---\n"): {want, whole}} {
			from, is := becomes[0], becomes[1]
			change := applied(t, from, text, cluster.ChangeOptions{Prune: true})
			ignored := []cmp.Option{cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmpopts.IgnoreFields(cluster.Pod{}, "Pod.Started", "Pod.Created"), cmpopts.EquateEmpty()}
			require.Empty(t, cmp.Diff(is.Pods, change.After.Pods, ignored...), f.Name())
			for _, ns := range is.Namespaces {
				if !slices.ContainsFunc(change.Warnings, func(w state.Warning) bool { return w.Object == ns.Name }) {
					require.Contains(t, change.After.Namespaces, ns, f.Name())
				}
			}
		}
	}
}

// TestNotAsItSeems: what a change says of a pod, and what becomes of it, may be two things. Each
// is a warning.
func TestNotAsItSeems(t *testing.T) {
	labelled := func(kind, name, labels, more string) string {
		return strings.Replace(object(kind, name, more), "namespace: x", "namespace: x, labels: {"+labels+"}", 1)
	}
	for _, c := range []struct{ name, before, apply, object, says string }{
		{"a status that hides it", "", object("Pod", "p", "status: {phase: Succeeded}"), "x/p", "its status says that it has finished, or has no address"},
		{"a status without an address", "", object("Pod", "p", "status: {qosClass: BestEffort}"), "x/p", "leave it out"},
		{"the name of one that is made up", made("Deployment", "web", "1", "a"), labelled("Pod", "web-0", "app: a", ""), "x/web-0", "it has the name of a pod that is made up for Deployment x/web"},
		{"into the network of the node", object("Pod", "p", "") + node("n1", ""), object("Pod", "p", "spec: {hostNetwork: true}"), "x/p", "no policy holds for it"},
		{"a workload in the network of the node", "", object("Deployment", "d", "spec: {replicas: 3, template: {spec: {hostNetwork: true}}}"), "x/d", "it may reach every pod of its node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			change := applied(t, worldOf(t, namespace("x", "")+c.before), c.apply, cluster.ChangeOptions{})
			require.Len(t, change.Warnings, 1)
			require.Equal(t, c.object, change.Warnings[0].Object)
			require.Contains(t, change.Warnings[0].Message, c.says)
		})
	}
}

// TestLabelsOfManifests: in manifests a label that controllers give as well goes with its text.
func TestLabelsOfManifests(t *testing.T) {
	w := worldOf(t, object("Deployment", "d", "spec: {template: {metadata: {labels: {app: d, job-name: guarded}}}}"))
	change := applied(t, w, object("Deployment", "d", "spec: {template: {metadata: {labels: {app: d}}}}"), cluster.ChangeOptions{})
	require.Equal(t, map[string]string{"app": "d"}, change.After.Pods[0].Labels)
}

// TestNodesOfAChange: a new node is written to, one that is deleted is not, and one that has another
// address lets that in.
func TestNodesOfAChange(t *testing.T) {
	at := func(name, os, address string) string {
		return "---\n{apiVersion: v1, kind: Node, metadata: {name: " + name + ", labels: {kubernetes.io/os: " + os + "}}, status: {addresses: [{type: InternalIP, address: " + address + "}]}}\n"
	}
	w := worldOf(t, at("n1", "windows", "10.240.0.1"))
	change := applied(t, w, at("n1", "windows", "8.8.8.8")+at("n2", "windows", "10.240.0.2")+at("n3", "linux", "10.240.0.3"), cluster.ChangeOptions{})
	var planned []string
	for _, n := range change.After.Planned() {
		planned = append(planned, fmt.Sprint(n.Name, n.Addrs, n.Internal))
	}
	require.Equal(t, []string{"n1[8.8.8.8] [8.8.8.8]", "n2[10.240.0.2] [10.240.0.2]"}, planned)
	require.Equal(t, "10.240.0.1", w.Nodes[0].Internal[0].String(), "before is before")
	change = applied(t, w, at("n1", "windows", "10.240.0.1"), cluster.ChangeOptions{Delete: true})
	require.Empty(t, change.After.Nodes)
}

// TestAddNodes: nodes that only pods name are added, and are no peers of policies.
func TestAddNodes(t *testing.T) {
	w := worldOf(t, node("linux", "kubernetes.io/os: linux")+node("n1", "")+object("Pod", "a", "spec: {nodeName: n1}")+object("Pod", "late", "spec: {nodeName: n0}")+object("Pod", "other", "spec: {nodeName: linux}"))
	var got []string
	for _, n := range w.Planned() {
		got = append(got, fmt.Sprint(n.Name, n.Unlisted))
	}
	require.Equal(t, []string{"n0true", "n1false"}, got)
	require.Len(t, w.Nodes, 3)
}

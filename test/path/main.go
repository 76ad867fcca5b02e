// Program path counts the functions of pkg/ that one event runs, from the API server's watch to HNS:
// a measure of how much code a reader has to understand. It runs the agent on the simulator and has
// to be built with coverage, as hack/path.sh does. It fails when an event runs more than its bound.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/tool/hnssim"
)

func main() {
	list := flag.Bool("list", false, "print each function")
	flag.Parse()
	if err := run(*list); err != nil {
		fmt.Fprintln(os.Stderr, "path:", err)
		os.Exit(1)
	}
}

// objects serves a list, and as its watch a channel that run sends events to.
type objects struct {
	*cache.ListWatch
	events *watch.FakeWatcher
}

// IsWatchListSemanticsUnSupported makes reflectors list before they watch.
func (objects) IsWatchListSemanticsUnSupported() bool { return true }

func serve(all ...runtime.Object) objects {
	list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, o := range all {
		list.Items = append(list.Items, runtime.RawExtension{Object: o})
	}
	events := watch.NewFake()
	return objects{&cache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return events, nil },
	}, events}
}

func meta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "1", Generation: 1, Labels: labels}
}

func pod(name, node, address, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: meta(name, map[string]string{"app": app}),
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}},
	}
}

// policy lets pods with app=api connect to the port of pods with app=db.
func policy(generation int64, port int32) *networkingv1.NetworkPolicy {
	to := intstr.FromInt32(port)
	p := &networkingv1.NetworkPolicy{ObjectMeta: meta("db", nil), Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}}}},
			Ports: []networkingv1.NetworkPolicyPort{{Port: &to}},
		}},
	}}
	p.Generation = generation
	return p
}

// run measures a label of a remote pod, an edited port and a new pod, one after the other.
func run(list bool) error {
	namespace := &corev1.Namespace{ObjectMeta: meta("shop", map[string]string{corev1.LabelMetadataName: "shop"})}
	node := &corev1.Node{ObjectMeta: meta("here", nil), Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
	}}
	namespace.Namespace, node.Namespace = "", ""
	pods, policies := serve(pod("db-0", "here", "10.1.0.2", "db"), pod("api-0", "there", "10.1.1.2", "web")), serve(policy(1, 5432))

	sim := hnssim.New(hnssim.Options{Foreign: hnssim.DefaultForeign()})
	start := func(name, address string) error { // as the CNI does for a new pod
		return sim.CreateEndpoint(hnssim.NewEndpoint{ID: name, Addrs: []netip.Addr{netip.MustParseAddr(address)}})
	}
	if err := start("db-0", "10.1.0.2"); err != nil {
		return err
	}
	applied := make(chan controllers.Applied, 100)
	d := dataplane.New(dataplane.Config{Node: "here", Now: time.Now, Client: sim})
	c := controllers.New(controllers.Config{
		Source:  controllers.Source{Pods: pods, Policies: policies, Namespaces: serve(namespace), Nodes: serve(node)},
		Applier: d, Progress: d.Progress, Node: "here", OnApplied: func(a controllers.Applied) { applied <- a },
	})
	go c.Run(context.Background())
	<-c.Settled()

	for _, m := range []struct {
		name  string
		most  int // functions: the last figure and 10 %
		event func() error
	}{
		{"label of a remote pod", 341, func() error { pods.events.Modify(pod("api-0", "there", "10.1.1.2", "api")); return nil }},
		{"port of a policy", 475, func() error { policies.events.Modify(policy(2, 5433)); return nil }},
		{"new pod", 525, func() error { pods.events.Add(pod("db-1", "here", "10.1.0.3", "db")); return start("db-1", "10.1.0.3") }},
	} {
		time.Sleep(200 * time.Millisecond) // until the worker waits
		sim.ResetCalls()
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		if err := m.event(); err != nil {
			return err
		}
		for sim.Written() == 0 {
			<-applied
		}
		functions, files, packages, err := covered()
		if err != nil {
			return err
		}
		fmt.Printf("%-22s %3d functions, %3d files, %2d packages: %s\n", m.name, len(functions), len(files), len(packages), strings.Join(packages, " "))
		if list {
			fmt.Println("  " + strings.Join(functions, "\n  "))
		}
		if len(functions) > m.most {
			return fmt.Errorf("%s: %d functions, more than %d", m.name, len(functions), m.most)
		}
	}
	return nil
}

// covered returns the functions, files and packages below pkg/ that ran since the counters were cleared.
func covered() (functions, files, packages []string, err error) {
	folder, err := os.MkdirTemp("", "path")
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := coverage.WriteMetaDir(folder); err != nil {
		return nil, nil, nil, err
	}
	if err := coverage.WriteCountersDir(folder); err != nil {
		return nil, nil, nil, err
	}
	out, err := exec.CommandContext(context.Background(), "go", "tool", "covdata", "func", "-i="+folder).Output()
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line) // file.go:line: name percent
		_, at, below := strings.Cut(fields[0], "/winnpm/pkg/")
		file, _, _ := strings.Cut(at, ":")
		if below && fields[2] != "0.0%" {
			functions, files, packages = append(functions, file+" "+fields[1]), append(files, file), append(packages, filepath.Dir(file))
		}
	}
	return functions, slices.Compact(files), slices.Compact(packages), err
}

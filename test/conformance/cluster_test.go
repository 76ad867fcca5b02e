package conformance

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// replicas is how many pods a StatefulSet of the suite has, and how many nodes of
// each system there are: the pods of one StatefulSet are on different nodes.
const replicas = 2

// cluster is the nodes, the kubelets and the agents beside the API server. Pods are
// on Windows nodes. Those of the network of their host are on Linux nodes, which the
// suite's policies ask for and which have no agent.
type cluster struct {
	t      *testing.T
	agents map[string]*agent // by Windows node
	nodes  map[string]netip.Addr

	mu       sync.Mutex        // guards following
	pods     byte              // how many addresses are taken
	seen     string            // versions of what the agents read, as last looked at
	at       time.Time         // when they were first so
	verdicts map[string]string // the last of each switch, for the log
}

// newCluster makes nodes that last until the test ends.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, agents: map[string]*agent{}, nodes: map[string]netip.Addr{}, verdicts: map[string]string{}}
	t.Cleanup(func() { require.NoError(t, removeAll(context.Background())) })
	kubelet := c.startKubelet()
	for i := range replicas {
		windows, linux := nodeOf(corev1.Windows, i), nodeOf(corev1.Linux, i)
		c.node(windows, corev1.Windows, netip.AddrFrom4([4]byte{10, 240, 0, byte(10 + i)}), kubelet)
		c.node(linux, corev1.Linux, netip.AddrFrom4([4]byte{10, 240, 0, byte(20 + i)}), kubelet)
		c.agents[windows] = startAgent(t, windows)
	}
	return c
}

// nodeOf is the node of the pod with a number.
func nodeOf(os corev1.OSName, number int) string { return fmt.Sprintf("%s-%d", os, number) }

// node creates a Node with an address. Its kubelet listens on loopback, which the API
// server finds by the node's host name.
func (c *cluster) node(name string, os corev1.OSName, addr netip.Addr, kubelet *httptest.Server) {
	c.t.Helper()
	ctx, nodes := c.t.Context(), kube.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelOSStable: string(os), corev1.LabelHostname: name},
	}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { require.NoError(c.t, nodes.Delete(context.Background(), name, now)) })
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "localhost"}, {Type: corev1.NodeInternalIP, Address: addr.String()}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(kubelet.Listener.Addr().(*net.TCPAddr).Port)
	_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
	require.NoError(c.t, err)
	c.nodes[name] = addr
}

// removeAll removes the namespaces that tests made, as the namespace controller would.
func removeAll(ctx context.Context) error {
	core := kube.CoreV1()
	namespaces, err := core.Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range namespaces.Items {
		name := namespaces.Items[i].Name
		if name == metav1.NamespaceDefault || strings.HasPrefix(name, "kube-") {
			continue
		}
		if err := core.Namespaces().Delete(ctx, name, now); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
		for _, of := range []interface {
			DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
		}{kube.AppsV1().StatefulSets(name), core.Pods(name), kube.NetworkingV1().NetworkPolicies(name), core.ServiceAccounts(name)} {
			if err := of.DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
				return err
			}
		}
		namespace, err := core.Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		namespace.Spec.Finalizers = nil
		if _, err := core.Namespaces().Finalize(ctx, namespace, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// now deletes without waiting for a kubelet.
var now = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}

// runPod makes a pod and plays its node: the CNI makes its endpoint, and the kubelet
// says that it runs.
func (c *cluster) runPod(ctx context.Context, pod *corev1.Pod, number int) error {
	os := corev1.Windows
	if pod.Spec.HostNetwork {
		os = corev1.Linux
	}
	pod.Spec.NodeName = nodeOf(os, number)
	pod, err := kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	host := c.nodes[pod.Spec.NodeName]
	addr := host
	if !pod.Spec.HostNetwork {
		addr = c.newAddr(byte(number))
		if err := c.agents[pod.Spec.NodeName].sim.CreateEndpoint(hnssim.SimEndpoint{ID: string(pod.UID), Addrs: []netip.Addr{addr}}); err != nil {
			return err
		}
	}
	started := metav1.Now()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &started,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		HostIP:     host.String(), HostIPs: []corev1.HostIP{{IP: host.String()}},
		PodIP: addr.String(), PodIPs: []corev1.PodIP{{IP: addr.String()}},
	}
	_, err = kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// newAddr returns an address that no pod has, of the node with a number.
func (c *cluster) newAddr(node byte) netip.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods++
	return netip.AddrFrom4([4]byte{10, 244, node, c.pods})
}

// agent is the agent of one Windows node, on a simulator.
type agent struct{ sim *hnsfault.Sim }

// startAgent runs the agent of a node until the test ends.
func startAgent(t *testing.T, node string) *agent {
	t.Helper()
	source, err := controllers.ClusterSource(admin, node)
	require.NoError(t, err)
	a := &agent{sim: hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})}
	dp := dataplane.New(dataplane.Config{Client: a.sim, Node: node, Now: time.Now, LookPeriod: time.Second})
	ctl := controllers.New(controllers.Config{
		Source: source, Applier: dp, Observer: dp, Progress: dp.Progress, Node: node, RequireNodeAddr: true,
		ApplyInterval: 20 * time.Millisecond, Logger: logr.Discard(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ctl.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return a
}

// playStatefulSets makes the pods of StatefulSets, once each, until the test ends. It
// asks for them a few times a second, as there are five.
func (c *cluster) playStatefulSets() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.statefulSets(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		require.NoError(c.t, <-ended)
	})
}

func (c *cluster) statefulSets(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		sets, err := kube.AppsV1().StatefulSets("").List(ctx, metav1.ListOptions{})
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for i := range sets.Items {
			if s := &sets.Items[i]; s.Status.Replicas == 0 {
				if err := c.statefulSet(ctx, s); err != nil {
					return fmt.Errorf("stateful set %s/%s: %w", s.Namespace, s.Name, err)
				}
			}
		}
	}
}

// statefulSet makes the pods of one and says that they are ready.
func (c *cluster) statefulSet(ctx context.Context, s *appsv1.StatefulSet) error {
	if err := account(ctx, s.Namespace); err != nil {
		return err
	}
	for i := range int(*s.Spec.Replicas) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprintf("%s-%d", s.Name, i), Labels: s.Spec.Template.Labels},
			Spec:       *s.Spec.Template.Spec.DeepCopy(),
		}
		if err := c.runPod(ctx, pod, i); err != nil {
			return err
		}
	}
	s.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: s.Generation, Replicas: *s.Spec.Replicas, ReadyReplicas: *s.Spec.Replicas,
		CurrentReplicas: *s.Spec.Replicas, UpdatedReplicas: *s.Spec.Replicas, AvailableReplicas: *s.Spec.Replicas,
	}
	_, err := kube.AppsV1().StatefulSets(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
	return err
}

// account gives a namespace the ServiceAccount without which it takes no pods.
func account(ctx context.Context, namespace string) error {
	_, err := kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

package gen

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/test/oracle"
)

func (g *Gen) namespace(name string) corev1.Namespace {
	return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: g.labels(namespaceLabels)}}
}

// newPodKey draws a namespace and a name that no pod of the cluster has.
func (g *Gen) newPodKey(c oracle.Cluster) types.NamespacedName {
	key := types.NamespacedName{Namespace: pick(g, g.namespaces, "pod namespace")}
	for i := 0; key.Name == "" || slices.ContainsFunc(c.Pods, func(pod corev1.Pod) bool {
		return pod.Namespace == key.Namespace && pod.Name == key.Name
	}); i++ {
		key.Name = fmt.Sprintf("pod%d", i)
	}
	return key
}

// pod draws a pod in any stage of its life.
func (g *Gen) pod(c oracle.Cluster, key types.NamespacedName) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: types.UID(g.uid()),
			Labels: g.labels(podLabels), CreationTimestamp: g.minute("created"),
		},
		Spec:   corev1.PodSpec{NodeName: pick(g, nodes, "node"), Containers: g.containers()},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if g.oneIn(4, "sidecar") {
		pod.Spec.InitContainers = g.containers()
		pod.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	}
	if g.oneIn(8, "terminating") {
		g.terminate(&pod)
	}
	if g.oneIn(8, "finished") {
		g.finish(&pod)
	}
	switch {
	case g.oneIn(8, "without address"):
		pod.Status.Phase = corev1.PodPending
		if g.oneIn(2, "not scheduled") {
			pod.Spec.NodeName = ""
		}
	case g.oneIn(8, "host network"):
		pod.Spec.HostNetwork = true
		g.startAtNode(&pod, pick(g, nodeAddrs, "node address"))
	default:
		pod.Spec.HostNetwork = g.oneIn(8, "host network by its field alone")
		g.start(&pod, g.podAddr(c))
		if pod.Status.Phase == corev1.PodRunning && g.oneIn(8, "pending with address") {
			pod.Status.Phase = corev1.PodPending
		}
	}
	return pod
}

func (g *Gen) terminate(pod *corev1.Pod) { pod.DeletionTimestamp = new(g.minute("deleted")) }

func (g *Gen) finish(pod *corev1.Pod) {
	pod.Status.Phase = pick(g, []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}, "phase")
}

// start gives the pod its address, as the kubelet reports it: alone, or as the
// first or second of two families. Some pods have one of IPv6 alone, and so none
// that counts. Pods share addresses of IPv6 now and then; one reads like IPv4.
func (g *Gen) start(pod *corev1.Pod, addr netip.Addr) {
	ip := addr.String()
	other := pick(g, []string{"fd00::a", "fd00::b", "::ffff:10.0.0.2"}, "IPv6 address")
	addrs := [][]string{{ip}, {ip}, {ip, other}, {other, ip}}[g.between(0, 3, "addresses")]
	if g.oneIn(16, "IPv6 alone") {
		addrs = []string{other}
	}
	status := &pod.Status
	status.PodIP = addrs[0]
	if len(addrs) > 1 || g.Flip("podIPs") {
		for _, ip := range addrs {
			status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
		}
	}
	if !g.oneIn(4, "no start time") {
		started := g.minute("started")
		if g.oneIn(8, "starts in the future") {
			started = metav1.NewTime(started.AddDate(973, 0, 0))
		}
		status.StartTime = &started
	}
}

// startAtNode gives the pod the address of its node, as the kubelet reports it. Sometimes it makes
// it a HostProcess pod whose status lacks the host address.
func (g *Gen) startAtNode(pod *corev1.Pod, addr netip.Addr) {
	g.start(pod, addr)
	if g.oneIn(4, "HostProcess") {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}}
		return
	}
	pod.Status.HostIP = addr.String()
}

// podAddr draws an address, sometimes one that another pod claims.
func (g *Gen) podAddr(c oracle.Cluster) netip.Addr {
	if g.oneIn(4, "any address") {
		return pick(g, podAddrs, "address")
	}
	for _, addr := range podAddrs {
		if !slices.ContainsFunc(c.Pods, func(pod corev1.Pod) bool { return oracle.Address(&pod) == addr }) {
			return addr
		}
	}
	return podAddrs[0]
}

func (g *Gen) containers() []corev1.Container {
	containers := make([]corev1.Container, g.between(1, 2, "containers"))
	for i := range containers {
		containers[i].Name = fmt.Sprintf("c%d", i)
		containers[i].Ports = some(g, 3, "container port", func() corev1.ContainerPort {
			port := corev1.ContainerPort{ContainerPort: pick(g, portNumbers, "container port")}
			if !g.oneIn(8, "unnamed") {
				port.Name = pick(g, portNames, "port name")
			}
			if g.Flip("protocol is set") {
				port.Protocol = pick(g, protocols, "container protocol")
			}
			return port
		})
	}
	return containers
}

// minute draws one of a few times, so that pods of one age are common.
func (g *Gen) minute(what string) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 1, 0, g.between(0, 3, what), 0, 0, time.UTC))
}

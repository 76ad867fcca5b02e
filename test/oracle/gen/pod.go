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

// createPod draws a pod with a name that no pod of the cluster has.
func (g *Gen) createPod(c *oracle.Cluster) {
	namespace, name := pick(g, g.namespaces, "pod namespace"), "pod0"
	for i := 1; has(c.Pods, namespace, name); i++ {
		name = fmt.Sprint("pod", i)
	}
	c.Pods = append(c.Pods, g.pod(*c, namespace, name))
}

// pod draws a pod in any phase. Its UID is new, and the order of UIDs does not follow the age of pods.
func (g *Gen) pod(c oracle.Cluster, namespace, name string) corev1.Pod {
	g.serial++
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("%d-%04d", g.between(0, 9, "uid"), g.serial)),
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
		g.start(&pod, pick(g, nodeAddrs, "node address"), true)
	default:
		pod.Spec.HostNetwork = g.oneIn(8, "host network by its field alone")
		g.start(&pod, g.podAddr(c), false)
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

// changeAddress sets the address of a pod. A pod with its node's address keeps having its node's address.
func (g *Gen) changeAddress(pod *corev1.Pod, addr netip.Addr) {
	atNode := oracle.AtNode(pod)
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
	g.start(pod, addr, atNode)
}

// start sets the pod's address as the kubelet reports it: alone, or as the first or second of two families.
// Some pods have only an IPv6 address, which does not count. Pods share IPv6 addresses now and then; one
// reads like IPv4. If it is the address of the node, some are HostProcess pods whose status lacks the host
// address.
func (g *Gen) start(pod *corev1.Pod, addr netip.Addr, atNode bool) {
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
		status.StartTime = new(g.minute("started"))
		if g.oneIn(8, "starts in the future") {
			status.StartTime.Time = status.StartTime.AddDate(973, 0, 0)
		}
	}
	switch {
	case !atNode:
	case g.oneIn(4, "HostProcess"):
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}}
	default:
		status.HostIP = ip
	}
}

// podAddr draws an address, sometimes one that another pod claims.
func (g *Gen) podAddr(c oracle.Cluster) netip.Addr {
	if g.oneIn(4, "any address") {
		return pick(g, podAddrs, "address")
	}
	free := slices.IndexFunc(podAddrs, func(addr netip.Addr) bool {
		return !slices.ContainsFunc(c.Pods, func(pod corev1.Pod) bool { return oracle.Address(&pod) == addr })
	})
	return podAddrs[max(free, 0)]
}

func (g *Gen) containers() []corev1.Container {
	return few(g, 2, "container", func() corev1.Container {
		return corev1.Container{Ports: some(g, 3, "container port", func() corev1.ContainerPort {
			port := corev1.ContainerPort{ContainerPort: pick(g, portNumbers, "container port")}
			if !g.oneIn(8, "unnamed") {
				port.Name = pick(g, portNames, "port name")
			}
			if g.Flip("protocol is set") {
				port.Protocol = pick(g, protocols, "container protocol")
			}
			return port
		})}
	})
}

// minute draws one of a few times, so that equal ages are common.
func (g *Gen) minute(what string) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 1, 0, g.between(0, 3, what), 0, 0, time.UTC))
}

package controllers

import (
	"cmp"
	"hash/maphash"
	"maps"
	"net/netip"
	"slices"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
)

// keptPods returns how the store keeps pods: reduced to the values that the dataplane needs. The
// dataplane shares these values, so each pod is in memory once.
func keptPods(node string, b policy.Budgets) kept[*corev1.Pod, desired.Pod] {
	in, excess := newInterner(), b.ExcessOfNamespacePods()
	return kept[*corev1.Pod, desired.Pod]{
		kind: KindPod,
		of: func(p *corev1.Pod) *desired.Pod {
			pod := PodFrom(p, node)
			if !pod.Local && !pod.Addr.IsValid() {
				pod.Labels, pod.Ports = nil, nil // a pod without an address is in no set; the update that adds its address has the labels
			}
			pod.Fit()
			in.pod(&pod)
			return &pod
		},
		same:  func(a, b *desired.Pod) bool { return a.Size == b.Size && a.Same(b) },
		limit: b.NamespaceBytes,
		size:  func(p *desired.Pod) int { return p.Size },
		shut: func(p *desired.Pod) *desired.Pod {
			is := *p
			is.Labels, is.Ports, is.OverBudget = nil, nil, excess
			return &is
		},
	}
}

// PodFrom returns the fields of a pod that the dataplane uses. The pod is local if it is scheduled
// to node, or if node is "". The result shares the label map of the object, which must not be
// changed.
func PodFrom(p *corev1.Pod, node string) desired.Pod {
	_, addr := addrsOf(p.Status)
	pod := desired.Pod{
		Namespace:   p.Namespace,
		Name:        p.Name,
		UID:         p.UID,
		Labels:      p.Labels,
		Addr:        addr,
		Ports:       portsOf(p.Spec),
		Local:       node == "" || p.Spec.NodeName == node,
		HostNetwork: OnHostNetwork(p),
		Finished:    p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Deleting:    p.DeletionTimestamp != nil,
		Created:     p.CreationTimestamp.Time,
		Grace:       graceOf(p),
	}
	if !pod.Local {
		pod.Node = p.Spec.NodeName
	}
	if p.Status.StartTime != nil {
		pod.Started = p.Status.StartTime.Time
	}
	return pod
}

// graceOf returns how long the containers of a pod may run on after a delete; zero stands for
// desired.DefaultGrace. It uses the grace period of the delete request. If there is none, as after
// a forced delete, it uses the one of the pod's spec.
func graceOf(p *corev1.Pod) time.Duration {
	seconds := p.DeletionGracePeriodSeconds
	if seconds == nil || *seconds <= 0 {
		seconds = p.Spec.TerminationGracePeriodSeconds
	}
	if seconds == nil || *seconds <= 0 || *seconds == int64(desired.DefaultGrace/time.Second) {
		return 0
	}
	return time.Duration(min(*seconds, int64(desired.LongestLost/time.Second))) * time.Second
}

// addrsOf returns the first address of a pod and its first IPv4 address, or the zero Addr. podIPs has all
// addresses; podIP alone is what old clusters and hand-written manifests give.
func addrsOf(status corev1.PodStatus) (first, v4 netip.Addr) {
	for _, ip := range append(slices.Clip(status.PodIPs), corev1.PodIP{IP: status.PodIP}) {
		addr, _ := netip.ParseAddr(ip.IP)
		if !first.IsValid() {
			first = addr
		}
		if !v4.IsValid() && addr.Is4() {
			v4 = addr
		}
	}
	return first, v4
}

// OnHostNetwork reports whether a pod uses the network of its node, so that it has neither an
// endpoint nor an address of its own. The addresses in its status decide. spec.hostNetwork does not:
// on Windows, containerd ignores it and looks at HostProcess, so a pod with spec.hostNetwork alone
// gets an endpoint and an address of the pod network. For a pod without an address, the result is a
// prediction from its spec.
func OnHostNetwork(p *corev1.Pod) bool {
	first, addr := addrsOf(p.Status)
	if !first.IsValid() {
		onWindows := p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows
		return p.Spec.HostNetwork && !onWindows || hostProcess(p.Spec)
	}
	if !addr.IsValid() {
		addr = first
	}
	// The addresses of the pod's node, as its kubelet reports them.
	hosts := append(slices.Clip(p.Status.HostIPs), corev1.HostIP{IP: p.Status.HostIP})
	onHost := slices.ContainsFunc(hosts, func(host corev1.HostIP) bool {
		is, _ := netip.ParseAddr(host.IP)
		return is == addr
	})
	return onHost || p.Status.HostIP == "" && len(p.Status.HostIPs) == 0 && hostProcess(p.Spec)
}

// hostProcess reports whether all containers of a pod are HostProcess containers. The API server
// rejects a pod that has both kinds of containers.
func hostProcess(spec corev1.PodSpec) bool {
	if spec.SecurityContext != nil && isHostProcess(spec.SecurityContext.WindowsOptions) {
		return true
	}
	other := func(c corev1.Container) bool {
		return c.SecurityContext == nil || !isHostProcess(c.SecurityContext.WindowsOptions)
	}
	return len(spec.Containers) > 0 && !slices.ContainsFunc(spec.Containers, other) && !slices.ContainsFunc(spec.InitContainers, other)
}

func isHostProcess(o *corev1.WindowsSecurityContextOptions) bool {
	return o != nil && o.HostProcess != nil && *o.HostProcess
}

// portsOf lists the named ports of a pod in the order in which names are resolved: containers
// before sidecars (init containers that keep running). If several ports have the same name and
// protocol, it lists the first.
func portsOf(spec corev1.PodSpec) []desired.PodPort {
	containers := slices.Clip(spec.Containers)
	for _, c := range spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, c)
		}
	}
	var ports []desired.PodPort
	seen := map[desired.PodPort]bool{}
	for _, c := range containers {
		for _, port := range c.Ports {
			is := desired.PodPort{Name: port.Name, Protocol: cmp.Or(policy.Protocol(port.Protocol), policy.TCP)}
			if port.Name == "" || port.ContainerPort < 1 || port.ContainerPort > 65535 || seen[is] {
				continue
			}
			seen[is] = true
			is.Number = uint16(port.ContainerPort)
			ports = append(ports, is)
		}
	}
	return ports
}

// interner lets pods with equal labels and ports share memory. Pods of a workload have the same
// labels and ports, and decoding allocates them anew for each pod. When the interner is full it
// forgets everything, so each workload then has one more copy. It is not safe for concurrent use.
type interner struct {
	seed  maphash.Seed
	pods  map[uint64]*desired.Pod // a pod with these labels and ports, by their hash
	bytes int                     // total size of pods
}

// internedBytes bounds the memory of an interner, which pods with unique labels would fill. Few
// clusters have so many workloads changing alternately that they do not fit.
const internedBytes = 2 << 20

func newInterner() *interner {
	return &interner{seed: maphash.MakeSeed(), pods: map[uint64]*desired.Pod{}}
}

// pod makes p share labels and ports with an earlier pod. It does not modify the label map and
// ports that p had.
func (in *interner) pod(p *desired.Pod) {
	p.Namespace, p.Node = unique.Make(p.Namespace).Value(), unique.Make(p.Node).Value()
	var hash uint64
	for k, v := range p.Labels { // a sum does not depend on the order
		hash += maphash.Comparable(in.seed, [2]string{k, v})
	}
	for _, port := range p.Ports {
		hash = hash*31 + maphash.Comparable(in.seed, port)
	}
	if known := in.pods[hash]; known != nil && maps.Equal(known.Labels, p.Labels) && slices.Equal(known.Ports, p.Ports) {
		p.Labels, p.Ports = known.Labels, known.Ports
		return
	}
	own := make(map[string]string, len(p.Labels))
	for k, v := range p.Labels {
		own[unique.Make(k).Value()] = unique.Make(v).Value()
	}
	p.Labels = own
	if in.bytes += p.Size; in.bytes > internedBytes {
		clear(in.pods)
		in.bytes = p.Size
	}
	in.pods[hash] = &desired.Pod{Labels: p.Labels, Ports: p.Ports}
}

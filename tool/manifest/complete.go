package manifest

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"net/netip"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/state"
)

// finish adds what a cluster would add to the objects, such as pods, UIDs and addresses.
func (l *loader) finish(node string) (Objects, error) {
	o := &l.objects
	byName(o.Nodes)
	slices.SortFunc(l.workloads, compareWorkloads)
	if l.Change {
		for _, w := range l.workloads {
			if owner(w.meta) == "" {
				o.Workloads = append(o.Workloads, w)
			}
		}
	} else if err := l.expand(node); err != nil {
		return Objects{}, err
	}
	byName(o.Pods)
	byName(o.Policies)
	byName(o.Services)
	byName(o.ClusterPolicies)
	if !l.Change {
		l.addNamespaces()
	}
	byName(o.Namespaces)

	for _, ns := range o.Namespaces {
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		ns.Labels[corev1.LabelMetadataName] = ns.Name
		ns.Status.Phase = cmp.Or(ns.Status.Phase, corev1.NamespaceActive)
	}
	hosts := internalIPs(o.Nodes)
	addrs := NewAddresses(*o)
	for _, pod := range o.Pods {
		if l.Change && reflect.ValueOf(pod.Status).IsZero() {
			continue // Apply completes it, as the result depends on the existing pod
		}
		completePod(pod, node, hosts, addrs)
		if w, is := OnlyIPv6(pod); is {
			l.warnings = append(l.warnings, w)
		}
	}
	return *o, nil
}

func byName[T metav1.Object](list []T) {
	slices.SortFunc(list, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// addNamespaces adds the namespaces of objects that no manifest defines.
func (l *loader) addNamespaces() {
	var names []string
	for _, pod := range l.objects.Pods {
		names = append(names, pod.Namespace)
	}
	for _, np := range l.objects.Policies {
		names = append(names, np.Namespace)
	}
	for _, w := range l.workloads {
		names = append(names, w.Namespace)
	}
	known := map[string]bool{}
	for _, ns := range l.objects.Namespaces {
		known[ns.Name] = true
	}
	for _, name := range names {
		if !known[name] {
			known[name] = true
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			identify("Namespace", ns)
			l.objects.Namespaces = append(l.objects.Namespaces, ns)
		}
	}
}

// created is the creation time of objects without one. It is arbitrary but fixed.
var created = metav1.NewTime(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))

// identify sets the UID, which it derives from the name, and the creation time of an object without one.
func identify(kind string, o metav1.Object) {
	// A UUID of version 8, whose content is application-defined.
	b := sha256.Sum256([]byte(kind + "/" + o.GetNamespace() + "/" + o.GetName()))
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	o.SetUID(types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])))
	if t := o.GetCreationTimestamp(); t.IsZero() {
		o.SetCreationTimestamp(created)
	}
}

// completePod makes a pod without a status a running pod, and completes the addresses of a pod with a
// status.
func completePod(pod *corev1.Pod, node string, hosts map[string]string, addrs *Addresses) {
	status := &pod.Status
	if reflect.ValueOf(*status).IsZero() {
		shares := controllers.OnHostNetwork(pod)
		if pod.Spec.NodeName == "" {
			pod.Spec.NodeName = node
		}
		status.Phase = corev1.PodRunning
		status.HostIP = hosts[pod.Spec.NodeName]
		start := pod.CreationTimestamp
		status.StartTime = &start
		if shares {
			status.PodIP = status.HostIP
		} else {
			status.PodIP = addrs.Of(pod.Namespace, pod.Name)
		}
	}
	if status.PodIP != "" && status.HostIP == "" && len(status.HostIPs) == 0 {
		status.HostIP = hosts[pod.Spec.NodeName]
	}
	switch {
	case status.PodIP == "" && len(status.PodIPs) > 0:
		status.PodIP = status.PodIPs[0].IP
	case status.PodIP != "" && len(status.PodIPs) == 0:
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	}
	if status.Phase == "" {
		status.Phase = corev1.PodPending
		if status.PodIP != "" {
			status.Phase = corev1.PodRunning
		}
	}
}

// OnlyIPv6 returns a warning about a running pod in the pod network that has only IPv6 addresses, and false
// for other pods.
func OnlyIPv6(pod *corev1.Pod) (state.Warning, bool) {
	done := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if controllers.OnHostNetwork(pod) || done || pod.Status.PodIP == "" {
		return state.Warning{}, false
	}
	for _, ip := range append(pod.Status.PodIPs, corev1.PodIP{IP: pod.Status.PodIP}) {
		if addr, err := netip.ParseAddr(ip.IP); err == nil && addr.Is4() {
			return state.Warning{}, false
		}
	}
	return state.Warning{
		Object: pod.Namespace + "/" + pod.Name, Kind: "Pod", Reason: NoIPv4,
		Message: oneLine(fmt.Sprintf("its only address is %s: WinNPM judges IPv4 only, so no policy holds for this pod and no verdict has it", pod.Status.PodIP)),
	}, true
}

// internalIPs returns the first InternalIP of each node that has one.
func internalIPs(nodes []*corev1.Node) map[string]string {
	out := map[string]string{}
	for _, n := range nodes {
		i := slices.IndexFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
		if i >= 0 {
			out[n.Name] = n.Status.Addresses[i].Address
		}
	}
	return out
}

// Addresses assigns addresses to pods. They are in 10.224.0.0/12, without the first and the last of each
// 256. The address of a pod is a function of its name, unless another pod has it.
type Addresses struct{ taken map[netip.Addr]bool }

// NewAddresses returns Addresses that avoids the addresses of the objects, and the other given addresses.
func NewAddresses(o Objects, others ...netip.Addr) *Addresses {
	a := &Addresses{map[netip.Addr]bool{}}
	take := func(text string) {
		if addr, err := netip.ParseAddr(text); err == nil {
			a.taken[addr] = true
		}
	}
	for _, n := range o.Nodes {
		for _, addr := range n.Status.Addresses {
			take(addr.Address)
		}
	}
	for _, pod := range o.Pods {
		take(pod.Status.HostIP)
		take(pod.Status.PodIP)
		for _, ip := range pod.Status.PodIPs {
			take(ip.IP)
		}
	}
	for _, addr := range others {
		a.taken[addr] = true
	}
	return a
}

// Of returns an address for a pod, and does not return it again.
func (a *Addresses) Of(namespace, name string) string {
	const size = 1 << 12 * 254
	h := fnv.New64a()
	_, _ = h.Write([]byte(namespace + "/" + name)) // never fails
	for i := h.Sum64() % size; ; i = (i + 1) % size {
		high, low := i/254, i%254+1
		addr := netip.AddrFrom4([4]byte{10, byte(224 + high>>8), byte(high), byte(low)})
		if !a.taken[addr] {
			a.taken[addr] = true
			return addr.String()
		}
	}
}

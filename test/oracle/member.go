package oracle

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Address returns the pod's IPv4 address, or the zero Addr if it has none.
func Address(pod *corev1.Pod) netip.Addr {
	for _, ip := range append(slices.Clone(pod.Status.PodIPs), corev1.PodIP{IP: pod.Status.PodIP}) {
		if addr, err := netip.ParseAddr(ip.IP); err == nil && addr.Is4() {
			return addr
		}
	}
	return netip.Addr{}
}

// Member reports whether selectors can select the pod: it has not finished, and has an address of its own.
func Member(pod *corev1.Pod) bool {
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return !finished && Address(pod).IsValid() && !special(Address(pod)) && !AtNode(pod)
}

// AtNode reports whether the pod's address is an address of its node. spec.hostNetwork does not
// decide that: on Windows such a pod has an address of its own, unless it is a HostProcess pod. If
// the status has no address of the node, AtNode reports whether the pod is a HostProcess pod.
func AtNode(pod *corev1.Pod) bool {
	said := false
	for _, ip := range append([]corev1.HostIP{{IP: pod.Status.HostIP}}, pod.Status.HostIPs...) {
		addr, err := netip.ParseAddr(ip.IP)
		if said = said || err == nil; err == nil && addr == Address(pod) {
			return true
		}
	}
	options := func(o *corev1.WindowsSecurityContextOptions) bool {
		return o != nil && o.HostProcess != nil && *o.HostProcess
	}
	all := len(pod.Spec.Containers) > 0
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		all = all && c.SecurityContext != nil && options(c.SecurityContext.WindowsOptions)
	}
	return !said && (all || pod.Spec.SecurityContext != nil && options(pod.Spec.SecurityContext.WindowsOptions))
}

// special reports whether the address is one that no pod can have.
func special(addr netip.Addr) bool {
	first := addr.As4()[0]
	return first == 0 || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// claimants returns the pods whose status has the address, the owner first. An address of the node has no
// claimants.
func claimants(c Cluster, addr netip.Addr) []*corev1.Pod {
	var all []*corev1.Pod
	for i := range c.Pods {
		if pod := &c.Pods[i]; Address(pod) == addr && Member(pod) && !slices.Contains(c.NodeAddrs, addr) {
			all = append(all, pod)
		}
	}
	slices.SortFunc(all, c.compare)
	return all
}

// here reports whether the pod runs on the node of the verdicts.
func (c Cluster) here(pod *corev1.Pod) bool { return c.Node == "" || pod.Spec.NodeName == c.Node }

// Owner returns the pod that is believed to have the address now, nil if there is none. Several pods may
// have it while an address passes from one pod to another.
func Owner(c Cluster, addr netip.Addr) *corev1.Pod {
	if all := claimants(c, addr); len(all) > 0 {
		return all[0]
	}
	return nil
}

// Doubtful reports whether pods of several namespaces claim the address with equal right: they run all on
// this node or all on other nodes, and are not being deleted. Such an address matches no pod peer.
//
// The address of a lost pod is doubtful too.
func Doubtful(c Cluster, addr netip.Addr) bool {
	if LostAt(c, addr) != nil {
		return true
	}
	all := claimants(c, addr)
	return len(all) > 0 && slices.ContainsFunc(all, func(pod *corev1.Pod) bool {
		return pod.Namespace != all[0].Namespace && c.here(pod) == c.here(all[0]) && pod.DeletionTimestamp == nil && all[0].DeletionTimestamp == nil
	})
}

// Residents returns the pods of the node to which endpoints with the address may belong: the believed owner
// among the pods on this node, or, if the address is doubtful, one pod of each namespace. It ignores pods
// on other nodes.
//
// A lost pod of this node is the only resident of its address while no pod claims the address.
func Residents(c Cluster, addr netip.Addr) []*corev1.Pod {
	if pod := LostAt(c, addr); pod != nil && c.here(pod) {
		return []*corev1.Pod{pod}
	}
	local := slices.DeleteFunc(claimants(c, addr), func(pod *corev1.Pod) bool { return !c.here(pod) })
	var out []*corev1.Pod
	for _, pod := range local {
		again := slices.ContainsFunc(out, func(other *corev1.Pod) bool { return other.Namespace == pod.Namespace })
		if len(out) == 0 || !again && pod.DeletionTimestamp == nil {
			out = append(out, pod)
		}
	}
	return out
}

// LostAt returns the lost pod that may still use an address, or nil.
func LostAt(c Cluster, addr netip.Addr) *corev1.Pod {
	for i := range c.Lost {
		if Address(&c.Lost[i]) == addr && len(claimants(c, addr)) == 0 && !slices.Contains(c.NodeAddrs, addr) {
			return &c.Lost[i]
		}
	}
	return nil
}

// Lose returns the lost pods after a change from before to after. These are the pods that the change
// removed before they finished, and the earlier lost pods. It leaves out pods whose address another
// pod claims. If it removed several pods with one address, only the owner of the address is lost.
func Lose(before, after Cluster) []corev1.Pod {
	var gone []corev1.Pod
	for _, pod := range before.Pods {
		stays := slices.ContainsFunc(after.Pods, func(p corev1.Pod) bool { return p.UID == pod.UID })
		if Member(&pod) && !stays {
			gone = append(gone, pod)
		}
	}
	slices.SortFunc(gone, func(a, b corev1.Pod) int { return before.compare(&a, &b) })
	after.Lost = slices.Concat(gone, before.Lost)
	var lost []corev1.Pod
	for i := range after.Lost {
		if pod := &after.Lost[i]; LostAt(after, Address(pod)) == pod { // the first one with the address
			lost = append(lost, *pod)
		}
	}
	return lost
}

// compare orders pods that claim one address, the owner first: pods that are not being deleted, then pods here,
// then later starts, later creations, greater UIDs.
func (c Cluster) compare(a, b *corev1.Pod) int {
	rank := map[bool]int{true: 1}
	return cmp.Or(
		cmp.Compare(rank[b.DeletionTimestamp == nil], rank[a.DeletionTimestamp == nil]),
		cmp.Compare(rank[c.here(b)], rank[c.here(a)]),
		c.started(b).Compare(c.started(a)),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		cmp.Compare(b.UID, a.UID),
	)
}

// started returns the start time of the pod, or the zero time if it is unknown or more than a minute in the
// future, as clocks may differ.
func (c Cluster) started(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime == nil || !c.Now.IsZero() && pod.Status.StartTime.Sub(c.Now) > time.Minute {
		return time.Time{}
	}
	return pod.Status.StartTime.Time
}

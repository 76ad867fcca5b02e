package policy

import (
	"cmp"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
)

// ExcessOfNamespace returns the reason for closing a policy that is within its own budget but
// does not fit into the budget of its namespace.
func (b Budgets) ExcessOfNamespace() string {
	return fmt.Sprintf("it is among the largest policies of its namespace, of which %d items and %d bytes together are read at most (MaxNetPolItemsPerNamespace, MaxNetPolBytesPerNamespace)",
		b.NamespaceItems, b.NamespaceBytes)
}

// SizeOfPod returns the size of a pod's labels and port names.
func SizeOfPod(labels map[string]string, ports []string) Size {
	s := Size{Items: len(labels) + len(ports)}
	for k, v := range labels {
		s.Bytes += len(k) + len(v)
	}
	for _, name := range ports {
		s.Bytes += len(name)
	}
	return s
}

// labelBytes is an estimate of the memory that a label or port takes in addition to its text.
const labelBytes = 32

// RoomForPods reports whether pods with this total size fit into the budget of one namespace.
func (b Budgets) RoomForPods(sum Size) bool {
	return sum.Bytes+labelBytes*sum.Items <= b.NamespacePodBytes
}

// ExcessOfNamespacePods returns the reason for closing a pod that is within its own budget but
// does not fit into the budget of its namespace.
func (b Budgets) ExcessOfNamespacePods() string {
	return fmt.Sprintf("labels and ports among the largest of its namespace, and do not fit into the %d bytes for all of its pods (MaxPodBytesPerNamespace)", b.NamespacePodBytes)
}

// itemBytes is an estimate of the memory that an item takes in addition to its text.
const itemBytes = 64

// Compare orders policies by their estimated memory. The policies of a namespace stay open in
// this order, until its budget is used up.
func (s Size) Compare(o Size) int {
	return cmp.Or(cmp.Compare(s.Bytes+itemBytes*s.Items, o.Bytes+itemBytes*o.Items), cmp.Compare(s.Items, o.Items))
}

// Room reports whether policies with this total size fit into the budget of one namespace. The
// smallest policies stay open, so only the texts of the policies decide which ones close.
func (b Budgets) Room(sum Size) bool {
	return sum.Items <= b.NamespaceItems && sum.Bytes <= b.NamespaceBytes
}

// Fit returns the policies of a cluster, with closed copies in place of those that are over a
// budget. It does not modify the objects in list.
func (b Budgets) Fit(list []*networkingv1.NetworkPolicy) []*networkingv1.NetworkPolicy {
	type place struct {
		at   int
		size Size
	}
	out := slices.Clone(list)
	shut := func(at int, excess string) {
		np := *out[at]
		np.Spec = Close(&np.Spec, excess)
		out[at] = &np
	}
	byNS := map[string][]place{}
	for i, np := range list {
		size := SizeOf(&np.Spec)
		switch excess := b.Excess(size); {
		case Excess(&np.Spec) != "": // closed already
		case excess != "":
			shut(i, excess)
		default:
			byNS[np.Namespace] = append(byNS[np.Namespace], place{i, size})
		}
	}
	for _, places := range byNS {
		slices.SortFunc(places, func(x, y place) int {
			return cmp.Or(x.size.Compare(y.size), cmp.Compare(list[x.at].Name, list[y.at].Name))
		})
		var sum Size
		for _, p := range places {
			if sum = sum.Add(p.size); !b.Room(sum) {
				shut(p.at, b.ExcessOfNamespace())
			}
		}
	}
	return out
}

package controllers

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/desired"
)

// arrivals knows which local pods have come with an address. It belongs to the
// goroutine of the pods' informer.
type arrivals map[desired.PodKey]identity

// identity is what gives a pod of a name an endpoint of its own.
type identity struct {
	uid  types.UID
	addr netip.Addr
}

// comes takes the state of a pod, nil when the pod is gone. It reports whether the pod is
// new on this node: such a pod is open until its endpoint is written.
func (a arrivals) comes(key desired.PodKey, p *desired.Pod) bool {
	if p == nil || !p.Local || p.HostNetwork || p.Finished || !p.Addr.IsValid() {
		delete(a, key)
		return false
	}
	is := identity{p.UID, p.Addr}
	if a[key] == is {
		return false
	}
	a[key] = is
	return true
}

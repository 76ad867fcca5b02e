package oracletest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/test/script"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// event is what the API server reports of one object.
type event struct {
	name   string         // kind and name
	object *script.Object // nil: it is deleted
	lost   bool           // it is a pod, and was deleted before it finished
}

// tell puts the event into a transaction.
func (e event) tell(tx *dataplane.Transaction) {
	if e.lost {
		namespace, name, _ := strings.Cut(strings.TrimPrefix(e.name, "pod "), "/")
		tx.DeletePod(desired.PodKey{Namespace: namespace, Name: name})
		return
	}
	script.Tell(tx, e.name, e.object)
}

// events returns what the API server would report of the way from one cluster
// to another, one event per object. With all it repeats what did not change.
func events(before, after oracle.Cluster, all bool) []event {
	var list []event
	gone := maps.Collect(script.Objects(before))
	for name, object := range script.Objects(after) {
		if old, existed := gone[name]; all || !existed || !old.Equal(object) {
			list = append(list, event{name: name, object: &object})
		}
		delete(gone, name)
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		pod := gone[name].Pod
		lost := pod != nil && slices.ContainsFunc(after.Lost, func(lost corev1.Pod) bool { return lost.UID == pod.UID })
		list = append(list, event{name: name, lost: lost})
	}
	return list
}

// tell applies events in transactions of the given size.
func (w *world) tell(list []event, size int) state.Report {
	var report state.Report
	for len(list) > 0 {
		tx := dataplane.NewTransaction()
		n := min(size, len(list))
		for _, event := range list[:n] {
			event.tell(tx)
		}
		list = list[n:]
		report = w.apply(tx)
	}
	return report
}

// plug is the CNI: every pod that runs here with an address of its own has an
// endpoint with all addresses of the pod, and only such pods have, lost ones included. An endpoint
// whose IPv4 address went on to a pod of another node is kept, until tidy. It
// reports whether an address that had an endpoint has a new one: coming after the
// news of its pod, for which the old endpoint was good enough, such a one is only
// found by the reconciler.
func (w *world) plug(c oracle.Cluster, tidy bool) (replaced bool) {
	wanted := map[string][]netip.Addr{}
	for _, pod := range slices.Concat(c.Pods, c.Lost) {
		addrs := addrsOf(&pod)
		if pod.Spec.NodeName != gen.Node || len(addrs) == 0 || oracle.AtNode(&pod) || finished(&pod) {
			continue
		}
		addr := oracle.Address(&pod)
		if tidy && addr.IsValid() && len(oracle.Residents(c, addr)) == 0 {
			continue
		}
		name := addr.String()
		if !w.setup.shared || !addr.IsValid() {
			name += string(pod.UID)
		}
		if id := guid(name); wanted[id] == nil {
			wanted[id] = addrs
		}
	}
	had := map[netip.Addr]bool{}
	for _, endpoint := range w.sim.Endpoints() {
		had[ipv4Of(endpoint.Addrs)] = true
		if _, ok := wanted[endpoint.ID]; !ok {
			w.note("endpoint %s of %v goes", endpoint.ID, endpoint.Addrs)
			require.NoError(w.t, w.sim.DeleteEndpoint(endpoint.ID))
		}
		delete(wanted, endpoint.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) { // in order, or a failure would not shrink
		addrs := wanted[id]
		addr := ipv4Of(addrs)
		replaced = replaced || addr.IsValid() && had[addr]
		w.note("endpoint %s of %v comes", id, addrs)
		require.NoError(w.t, w.sim.CreateEndpoint(hnssim.SimEndpoint{ID: id, Addrs: addrs}))
	}
	return replaced
}

// addrsOf returns the addresses of a pod, of both families, in its order.
func addrsOf(pod *corev1.Pod) []netip.Addr {
	texts := []string{pod.Status.PodIP}
	if len(pod.Status.PodIPs) > 0 {
		texts = nil
		for _, ip := range pod.Status.PodIPs {
			texts = append(texts, ip.IP)
		}
	}
	var addrs []netip.Addr
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// ipv4Of returns the first IPv4 address of an endpoint, the zero Addr if it has
// none.
func ipv4Of(addrs []netip.Addr) netip.Addr {
	for _, addr := range addrs {
		if addr.Is4() {
			return addr
		}
	}
	return netip.Addr{}
}

// guid makes an endpoint's ID of what it is for, so that it is the same in
// every world.
func guid(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// change takes the world from one cluster to the next. The CNI is either ahead
// of the dataplane or behind it.
func (w *world) change(before, after oracle.Cluster, late, all bool) {
	if !late {
		w.plug(after, false)
	}
	list := events(before, after, all)
	report := w.tell(list, max(1, len(list)))
	replaced := false
	if late {
		replaced = w.plug(after, false)
		report = w.apply(dataplane.NewTransaction())
	}
	w.settle(report)
	if replaced {
		w.reconcile()
	}
}

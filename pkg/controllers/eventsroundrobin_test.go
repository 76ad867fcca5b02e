package controllers

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// writeIn creates a policy in a namespace.
func (w *world) writeIn(namespace, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.policies[policy.Key{Namespace: namespace, Name: name}] = &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// in moves a warning to another namespace.
func in(namespace string, warning state.Warning) state.Warning {
	warning.Object = namespace + warning.Object[1:]
	return warning
}

// Whoever writes a policy may give it as many faults as fit into an object: that is
// one Event with a count, and no other tenant waits for more than one token.
func TestManyFaultsOfOnePolicy(t *testing.T) {
	var warnings []state.Warning
	for i := range 2000 {
		warnings = append(warnings, ipv6("bad", fmt.Sprintf("spec.ingress[0].from[%d]: no", i)), rejected("bad", fmt.Sprintf("%d: no", i)))
	}
	runEvents(t, []string{"bad"}, func(w *world) {
		w.writeIn("y", "victim")
		w.activate(append(warnings, in("y", rejected("victim", "a")))...)
		require.ElementsMatch(t, []string{"Warning bad IPv6Peer", "Warning bad HNSRejected", "Warning victim HNSRejected"}, w.took())
		time.Sleep(tellAgain / 2)
		require.Empty(t, w.took())

		for i := range 300 { // every second it is another fault
			w.activate(ipv6("bad", fmt.Sprint(i)), in("y", rejected("victim", "a")))
			time.Sleep(time.Second)
		}
		require.InDelta(t, tellQuick+300/60, len(w.took()), 1)
	})
}

// A policy that comes right and goes wrong every second has a few Events, then one a
// minute of each kind.
func TestFlappingPolicy(t *testing.T) {
	runEvents(t, []string{"p"}, func(w *world) {
		for range 150 {
			w.activate(ipv6("p", "a"))
			time.Sleep(time.Second)
			w.activate()
			time.Sleep(time.Second)
		}
		require.InDelta(t, 2*(tellQuick+300/60), len(w.took()), 2)
		w.activate()
		time.Sleep(2 * tellCalm)
		w.activate()
		require.Empty(t, w.facts, "nothing is kept of it")
	})
}

// Namespaces are served round robin: however many policies the others have something to tell of,
// an Event waits for one of each other namespace, at one a second. Before, it waited
// for all 2,000: 33 minutes.
func TestNamespacesAreServedRoundRobin(t *testing.T) {
	const many, others = 2000, 5
	runEvents(t, nil, func(w *world) {
		var warnings []state.Warning
		for n := range others {
			for i := range many / others {
				name := fmt.Sprintf("p%03d", i)
				w.writeIn(fmt.Sprint("flood", n), name)
				warnings = append(warnings, in(fmt.Sprint("flood", n), ipv6(name, "a")))
			}
		}
		w.activate(warnings...)
		sent, _ := w.events()
		require.Len(t, sent, burst, "nothing is left of the bucket")
		by := map[string]int{}
		for _, e := range sent {
			by[e.Namespace]++
		}
		require.Len(t, by, others)
		require.Equal(t, burst/others, by["flood0"])

		w.writeIn("y", "victim")
		for i := range 3 {
			time.Sleep(20 * time.Second)
			warnings = append(warnings, in("y", ipv6("victim", fmt.Sprint(i))))
			w.events()
			began := time.Since(w.began)
			w.activate(warnings...)
			time.Sleep((others + 2) * time.Second)
			sent, at := w.events()
			waited := -time.Second
			for i, e := range sent {
				if e.Namespace == "y" {
					waited = at[i] - began
				}
			}
			require.GreaterOrEqual(t, waited, time.Duration(0), "it was not told")
			require.LessOrEqual(t, waited, (others+2)*time.Second, "a token for each, and a second to come for it")
		}
		synctest.Wait()
	})
}

// Who leaves and comes back does not come before those who wait.
func TestComingBackGainsNothing(t *testing.T) {
	runEvents(t, nil, func(w *world) {
		var warnings []state.Warning
		for i := range 100 {
			w.writeIn("y", fmt.Sprint("p", i))
			warnings = append(warnings, in("y", ipv6(fmt.Sprint("p", i), "a")))
		}
		w.activate(warnings...)
		w.events()
		for i := range 100 { // a new policy of the other namespace, and none of the old ones
			name := fmt.Sprint("q", i)
			w.writeIn("x", name)
			w.activate(append([]state.Warning{ipv6(name, "a")}, warnings...)...)
			time.Sleep(500 * time.Millisecond)
			w.remove(name)
			w.activate(warnings...)
			time.Sleep(500 * time.Millisecond)
		}
		sent, _ := w.events()
		by := map[string]int{}
		for _, e := range sent {
			by[e.Namespace]++
		}
		require.GreaterOrEqual(t, by["y"], len(sent)/2)
		require.InDelta(t, 100, len(sent), 2)
	})
}

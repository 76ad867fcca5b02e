package controllers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

func TestWarningIsTold(t *testing.T) {
	runEvents(t, []string{"p"}, func(w *world) {
		w.activate(ipv6("p", "spec.a: no"))
		got := w.one()
		want := &eventsv1.Event{
			ObjectMeta:          metav1.ObjectMeta{Namespace: "x", Name: got.Name},
			EventTime:           metav1.NewMicroTime(w.began),
			ReportingController: "winnpm",
			ReportingInstance:   "win-1",
			Action:              "Program",
			Reason:              "IPv6Peer",
			Type:                "Warning",
			Note:                "on node win-1 and every other Windows node: spec.a: no",
			Regarding:           corev1.ObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: "x", Name: "p", UID: "uid-p"},
			Related:             &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "win-1"},
		}
		require.Empty(t, cmp.Diff(want, got))
		require.Regexp(t, `^p\.[0-9a-f]{16}$`, got.Name)

		w.activate(ipv6("p", "spec.a: no"))
		require.Empty(t, w.took(), "nothing is new")
		w.Applied(Applied{Err: errDown})
		synctest.Wait()
		require.Empty(t, w.took(), "a transaction that failed says nothing about warnings")
		w.activate(ipv6("p", "spec.a: no"), ipv6("p", "spec.b: no"))
		require.Equal(t, "on node win-1 and every other Windows node: 2 times, the first: spec.a: no", w.one().Note)
		w.activate(ipv6("p", "spec.b: no"), ipv6("p", "spec.a: no"))
		require.Empty(t, w.took(), "in another order they are the same")
		w.activate(rejected("p", "spec.b: no"))
		require.Equal(t, "on node win-1: spec.b: no", w.one().Note)
	})
}

// TestWarningOfAClusterPolicyIsTold: it is about an object without a namespace, and cannot be
// taken for one about a NetworkPolicy of the same name.
func TestWarningOfAClusterPolicyIsTold(t *testing.T) {
	runEvents(t, []string{"p"}, func(w *world) {
		w.clusters = map[string]*v1alpha2.ClusterNetworkPolicy{"p": {ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-c", Generation: 1}}}
		broken := state.Warning{Object: "p", Kind: "ClusterNetworkPolicy", Reason: "UnsupportedPeer", Message: "spec.a: no"}
		w.activate(broken)
		got := w.one()
		require.Equal(t, "default", got.Namespace)
		require.Equal(t, corev1.ObjectReference{APIVersion: "policy.networking.k8s.io/v1alpha2", Kind: "ClusterNetworkPolicy", Name: "p", UID: "uid-c"}, got.Regarding)
		require.Equal(t, "UnsupportedPeer", got.Reason)
		w.activate(broken, ipv6("p", "spec.a: no"))
		require.Equal(t, "NetworkPolicy", w.one().Regarding.Kind)
		w.activate(ipv6("p", "spec.a: no"))
		passed := w.one()
		require.Equal(t, []string{"Programmed", "ClusterNetworkPolicy"}, []string{passed.Reason, passed.Regarding.Kind})
	})
}

// TestNotes: what an Event says, by its warning, and whether all nodes have one Event or each node
// has its own. A warning of a pod is told when it stands for a minute.
func TestNotes(t *testing.T) {
	contested := func(kind string) state.Warning {
		return state.Warning{Object: "x/a", Kind: kind, Reason: state.ReasonAddressContested, Message: "no"}
	}
	for name, tt := range map[string]struct {
		warning state.Warning
		waits   bool
		note    string // of node win-1
		events  int    // of two nodes
	}{
		"nodes unknown":       {state.Warning{Object: "p", Kind: "ClusterNetworkPolicy", Reason: state.ReasonNodesUnknown, Message: "no"}, false, "on node win-1: no", 2},
		"over its budget":     {state.Warning{Object: "x/one", Kind: "NetworkPolicy", Reason: state.ReasonOverBudget, Message: "no"}, false, "on node win-1 and every other Windows node: no", 1},
		"contested":           {contested("Pod"), true, "on node win-1: in doubt for pod a: no", 2},
		"contested elsewhere": {contested(desired.RemotePod), true, "on node win-1 and every other Windows node: in doubt for pod a: no", 1},
	} {
		t.Run(name, func(t *testing.T) {
			names := map[string]bool{}
			for _, node := range []string{"win-1", "win-2"} {
				runOn(t, node, []string{"one"}, func(w *world) {
					w.clusters = map[string]*v1alpha2.ClusterNetworkPolicy{"p": {ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-c", Generation: 1}}}
					w.selects("a", "one")
					w.activate(tt.warning)
					if tt.waits {
						time.Sleep(tellPatience - time.Second)
						require.Empty(t, w.took())
						time.Sleep(2 * time.Second)
					}
					e := w.one()
					require.Equal(t, string(tt.warning.Reason), e.Reason)
					require.Equal(t, strings.Replace(tt.note, "win-1", node, 1), e.Note)
					names[e.Name] = true
					w.activate(tt.warning)
					require.Empty(t, w.took(), "nothing is new")
					w.activate()
					require.Equal(t, []string{"Normal " + e.Regarding.Name + " Programmed"}, w.took())
				})
			}
			require.Len(t, names, tt.events)
		})
	}
}

func TestProgrammedWhenAllHasPassed(t *testing.T) {
	runEvents(t, []string{"p"}, func(w *world) {
		w.activate(ipv6("p", "a"), rejected("p", "b"))
		require.Len(t, w.took(), 2)
		w.activate(ipv6("p", "a"))
		require.Empty(t, w.took(), "one stands still")
		w.activate(state.Warning{Object: "win-1", Kind: "Node", Reason: state.ReasonHNSUnavailable, Message: "sets"})
		require.Empty(t, w.took(), "while HNS is away nobody knows")
		w.activate()
		e := w.one()
		require.Equal(t, "Normal Programmed Program", fmt.Sprint(e.Type, " ", e.Reason, " ", e.Action))
		require.Equal(t, "on node win-1: nothing of it is left out or failing any more", e.Note)
		w.activate()
		time.Sleep(2 * tellAgain)
		require.Empty(t, w.took(), "once")
		w.activate(ipv6("p", "a"))
		require.Equal(t, []string{"Warning p IPv6Peer"}, w.took(), "it is back")
	})
}

func TestNothingIsSaidOfWhatIsGone(t *testing.T) {
	runEvents(t, []string{"deleted", "replaced"}, func(w *world) {
		w.activate(ipv6("deleted", "a"), ipv6("replaced", "a"), ipv6("never there", "a"))
		require.Equal(t, []string{"Warning deleted IPv6Peer", "Warning replaced IPv6Peer"}, w.took())
		w.remove("deleted")
		w.replace("replaced")
		w.activate()
		require.Empty(t, w.took())
		time.Sleep(2 * tellAgain)
		require.Empty(t, w.took())
	})
}

// A call that fails is tried again: only what goes on is news.
func TestPodsThatFailForAMoment(t *testing.T) {
	runEvents(t, []string{"one", "two"}, func(w *world) {
		w.selects("a", "one", "two")
		w.selects("b", "one")
		w.activate(stuck("a", "timeout"))
		time.Sleep(tellPatience - time.Second)
		w.activate()
		time.Sleep(time.Hour)
		require.Empty(t, w.took(), "it passed in time, and nothing was told of it")

		w.activate(stuck("a", "timeout"))
		time.Sleep(tellPatience - time.Second)
		w.activate(stuck("a", "another timeout"), stuck("b", "timeout"))
		require.Empty(t, w.took())
		time.Sleep(2 * time.Second)
		sent, _ := w.events()
		require.Len(t, sent, 2, "one for each policy")
		require.Equal(t, "HNSUnavailable", sent[0].Reason)
		require.Equal(t, "on node win-1: in 2 pods, one of them: not in force for pod a: another timeout", sent[0].Note)
		require.Equal(t, "on node win-1: not in force for pod a: another timeout", sent[1].Note)
		time.Sleep(tellPatience)
		w.activate(stuck("b", "yet another"))
		require.Equal(t, []string{"Normal two Programmed"}, w.took(), "which pods it is changes")
		w.activate()
		require.Equal(t, []string{"Normal one Programmed"}, w.took())
	})
}

// Many nodes may have many warnings at once: they are told one by one, none is
// lost, and what has passed meanwhile is not told.
func TestManyWarningsAtOnce(t *testing.T) {
	const many = 1000
	var names []string
	var warnings []state.Warning
	for i := range many {
		names = append(names, fmt.Sprintf("p%03d", i))
		warnings = append(warnings, ipv6(names[i], "a"))
	}
	runEvents(t, names, func(w *world) {
		w.activate(warnings...)
		require.Len(t, w.took(), burst)
		time.Sleep(10*time.Second + time.Millisecond)
		require.InDelta(t, 10, len(w.took()), 1)
		w.activate(warnings[:many-100]...)
		time.Sleep((many - 100 - burst) * time.Second)
		seen := len(w.took())
		require.InDelta(t, many-100-burst-10, seen, 1, "all but those that passed")
		time.Sleep(tellAgain / 2)
		require.Empty(t, w.took(), "every one once")
	})
}

func TestServerThatIsDownGetsThemLater(t *testing.T) {
	runEvents(t, []string{"p", "q"}, func(w *world) {
		w.answers(func(*eventsv1.Event) error { return errDown })
		w.activate(ipv6("p", "a"), ipv6("q", "a"))
		time.Sleep(time.Hour)
		tried, at := w.events()
		require.Less(t, len(at), 25, "ever longer pauses")
		require.Greater(t, len(at), 10)
		for i := 1; i < len(at); i++ {
			require.LessOrEqual(t, at[i]-at[i-1], 8*time.Minute)
		}
		require.Equal(t, "p q p", tried[0].Regarding.Name+" "+tried[1].Regarding.Name+" "+tried[2].Regarding.Name, "the next one may be luckier")
		w.answers(func(*eventsv1.Event) error { return nil })
		w.activate(ipv6("q", "a"))
		time.Sleep(10 * time.Minute)
		require.Equal(t, []string{"Warning q IPv6Peer"}, w.took(), "what has passed is not told")

		w.answers(func(*eventsv1.Event) error { return errDown })
		w.activate()
		time.Sleep(5 * time.Second)
		require.Len(t, w.took(), 3, "pauses are short again")
		w.answers(func(*eventsv1.Event) error { return nil })
		w.activate(ipv6("q", "b"))
		time.Sleep(10 * time.Minute)
		require.Equal(t, []string{"Warning q IPv6Peer"}, w.took(), "it has not passed after all")

		var lines []string
		for _, entry := range w.logs.All() {
			lines = append(lines, entry.Message)
		}
		const late, sent = "sending an Event failed, trying again", "Events are sent again"
		require.Equal(t, []string{late, sent, late, sent}, lines, "one line, however often")
	})
}

// One Event that is refused for good stops no other one.
func TestRefusedEventsAreGivenUp(t *testing.T) {
	events := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
	terminating := apierrors.NewForbidden(events, "e", errDown)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, err := range map[string]error{
		"there already": apierrors.NewAlreadyExists(events, "e"),
		"no namespace":  apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"),
		"terminating":   terminating,
		"invalid":       apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "e", nil),
		"bad request":   apierrors.NewBadRequest("no"),
	} {
		t.Run(name, func(t *testing.T) {
			runEvents(t, []string{"p", "q"}, func(w *world) {
				w.answers(func(e *eventsv1.Event) error {
					if e.Regarding.Name == "p" {
						return err
					}
					return nil
				})
				w.activate(ipv6("p", "a"), ipv6("q", "a"))
				require.Equal(t, []string{"Warning p IPv6Peer", "Warning q IPv6Peer"}, w.took(), "at once")
				time.Sleep(tellAgain / 2)
				require.Empty(t, w.took(), "p is not tried again")
			})
		})
	}
	require.False(t, settled(apierrors.NewForbidden(events, "e", errDown)), "rights may come")
	require.False(t, settled(apierrors.NewTooManyRequests("slow down", 1)))
}

// A server that does not answer keeps nobody waiting.
func TestServerThatHangs(t *testing.T) {
	runEvents(t, []string{"p", "q"}, func(w *world) {
		w.answers(nil)
		for range 100 {
			w.activate(ipv6("p", "a"), ipv6("q", "a"))
		}
		require.Zero(t, time.Since(w.began))
		require.Len(t, w.took(), 1)
		time.Sleep(sendTimeout + 3*time.Second)
		require.Equal(t, []string{"Warning q IPv6Peer"}, w.took(), "after the timeout the next one")
	})
}

// Servers forget Events after an hour.
func TestActiveWarningIsToldAgain(t *testing.T) {
	runEvents(t, []string{"p", "q"}, func(w *world) {
		w.activate(ipv6("p", "a"), rejected("q", "a"))
		first, _ := w.events()
		time.Sleep(tellAgain + time.Second)
		second, _ := w.events()
		require.Equal(t, names(first), names(second), "a server that has them still refuses these")
		require.Len(t, second, 2)
	})
}

func names(events []*eventsv1.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Name)
	}
	return out
}

// What every node has to tell has one name, so that the cluster gets it once.
func TestNamesOfEvents(t *testing.T) {
	name := func(node string, generation int64, after time.Duration, warning state.Warning, passed bool) string {
		var got string
		runOn(t, node, nil, func(w *world) {
			time.Sleep(after)
			w.write("p", generation)
			w.activate(warning)
			got = w.one().Name
			if passed {
				w.activate()
				got = w.one().Name
			}
		})
		return got
	}
	for _, passed := range []bool{false, true} {
		six := name("n1", 1, 0, ipv6("p", "a"), passed)
		require.Equal(t, six, name("n2", 1, time.Hour, ipv6("p", "a"), passed), "any node, before or after a restart")
		require.NotEqual(t, six, name("n1", 2, 0, ipv6("p", "a"), passed), "the policy was written anew")
		no := name("n1", 1, 0, rejected("p", "a"), passed)
		require.NotEqual(t, no, name("n2", 1, 0, rejected("p", "a"), passed), "each node for itself")
		require.NotEqual(t, no, name("n1", 1, time.Hour, rejected("p", "a"), passed), "each time it happens")
	}
	require.NotEqual(t, name("n1", 1, 0, ipv6("p", "a"), false), name("n1", 1, 0, ipv6("p", "b"), false))
	require.NotEqual(t, name("n1", 1, 0, ipv6("p", "a"), false), name("n1", 1, 0, ipv6("p", "a"), true))
}

func TestLimitsOfTheServer(t *testing.T) {
	long := strings.Repeat("a", 235) + "." + strings.Repeat("b", 17)
	runOn(t, strings.Repeat("n", 253), []string{long}, func(w *world) {
		w.activate(rejected(long, strings.Repeat("ä", 2000)))
		e := w.one()
		require.Empty(t, validation.NameIsDNSSubdomain(e.Name, false), e.Name)
		require.InDelta(t, 1023, len(e.Note), 1)
		require.True(t, utf8.ValidString(e.Note))
		require.Len(t, e.ReportingInstance, 128)
		require.Equal(t, long, e.Regarding.Name)
	})
}

func TestClusterSink(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, eventsv1.AddToScheme(scheme))
	var got []eventsv1.Event
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/apis/events.k8s.io/v1/namespaces/x/events" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var e eventsv1.Event
		_, _, err = serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(body, nil, &e)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		e.TypeMeta = metav1.TypeMeta{}
		got = append(got, e)
		w.Header().Set("Content-Type", "application/json")
		if len(got) == 1 {
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(e)
			return
		}
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Reason: metav1.StatusReasonAlreadyExists, Code: http.StatusConflict,
		})
	}))
	defer server.Close()
	defer server.CloseClientConnections()
	sink, err := ClusterSink(&rest.Config{Host: server.URL})
	require.NoError(t, err)

	e := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "e"}, Reason: "IPv6Peer", Note: "why"}
	require.NoError(t, sink.Create(t.Context(), e))
	err = sink.Create(t.Context(), e)
	require.True(t, apierrors.IsAlreadyExists(err), err)
	require.True(t, settled(err))
	require.Len(t, got, 2)
	require.Empty(t, cmp.Diff(*e, got[0]))
}

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

package controllers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/policy"
)

// few are limits that a test can exceed by hand: of six rules, and of ten. A rule has 66 bytes.
var few = policy.Budgets{ObjectBytes: 6*66 + 10, NamespaceBytes: 10*66 + 10}.OrDefaults()

// ofRules returns a policy of so many rules.
func ofRules(namespace, name string, rules, version int) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u", ResourceVersion: fmt.Sprint(version)},
		Spec:       networkingv1.NetworkPolicySpec{Ingress: make([]networkingv1.NetworkPolicyIngressRule, rules)},
	}
}

// closedIn returns the policies of a store that are closed, and that are not.
func closedIn(s *store[*networkingv1.NetworkPolicy, keptPolicy]) (closed, open []string) {
	for _, p := range s.all() {
		if name := p.object.Namespace + "/" + p.object.Name; policy.Excess(&p.object.Spec) != "" {
			closed = append(closed, name)
		} else {
			open = append(open, name)
		}
	}
	slices.Sort(closed)
	slices.Sort(open)
	return closed, open
}

// Whatever comes in which order, the store closes what policy.Budgets.Fit closes. When it has
// more closed, as their text is gone, it asks for another list. Otherwise it asks only if a
// closed namespace is within its limit again.
func TestPolicyStoreModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := storeOf(keptPolicies(few), &keys{})
		world := map[string]*networkingv1.NetworkPolicy{}
		version := 0
		list := func() {
			add, end := s.list()
			for _, np := range world {
				require.NoError(t, add(np.DeepCopy()))
			}
			end()
			require.False(t, s.wantsList(), "a list says all")
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			version++
			name := fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "name"))
			namespace := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "namespace")
			id := namespace + "/" + name
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				list()
			case 1:
				if np := world[id]; np != nil {
					delete(world, id)
					require.NoError(t, s.remove(np))
				}
			case 2:
				if np := world[id]; np != nil {
					require.NoError(t, s.set(np.DeepCopy()), "once more")
				}
			default:
				np := ofRules(namespace, name, rapid.IntRange(0, 8).Draw(t, "rules"), version)
				world[id] = np
				require.NoError(t, s.set(np.DeepCopy()))
			}
			var want []string
			var all []*networkingv1.NetworkPolicy
			for _, np := range world {
				all = append(all, np)
			}
			for _, np := range few.Fit(all) {
				if policy.Excess(&np.Spec) != "" {
					want = append(want, np.Namespace+"/"+np.Name)
				}
			}
			slices.Sort(want)
			closed, open := closedIn(s)
			require.Len(t, world, len(closed)+len(open))
			require.Subset(t, closed, want, "what is over its budget is closed")
			require.True(t, s.wantsList() || slices.Equal(closed, want), "closed are %v, %v suffices", closed, want)
			if s.wantsList() && rapid.Bool().Draw(t, "heeded") {
				list()
			}
		}
		list()
		require.Equal(t, len(s.all()), len(world))
	})
}

// A policy that is within its budget is kept as it is; of one that is larger what Close makes of it.
func TestLargePolicy(t *testing.T) {
	big := ofRules("x", "big", 300, 1)
	big.Spec.PodSelector.MatchLabels = map[string]string{"app": "a"}
	big.Spec.PolicyTypes = []networkingv1.PolicyType{"Egress"}
	vast := big.DeepCopy()
	vast.Spec.PodSelector.MatchLabels["long"] = strings.Repeat("x", 9000)
	untyped := big.DeepCopy()
	untyped.Spec.PolicyTypes = nil
	typed := big.DeepCopy()
	typed.Spec.PolicyTypes = slices.Repeat(typed.Spec.PolicyTypes, 100)
	noise := big.DeepCopy()
	noise.Labels, noise.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
	for _, tc := range []struct {
		name  string
		np    *networkingv1.NetworkPolicy
		types int // that are kept, with the mark; 0: it is not closed
		empty bool
	}{
		{"small", ofRules("x", "small", 3, 1), 0, true},
		{"big", big, 2, false},
		{"noise", noise, 2, false},
		{"a subject of 9,000 bytes", vast, 2, true},
		{"without types", untyped, 2, false},
		{"with types of 800 bytes", typed, 2, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kept := keptPolicies(few).of(tc.np)
			require.NotNil(t, kept)
			require.Equal(t, tc.np.Name, kept.object.Name)
			require.Equal(t, tc.np.ResourceVersion, kept.object.ResourceVersion)
			require.Equal(t, tc.empty, len(kept.object.Spec.PodSelector.MatchLabels) == 0)
			if tc.types == 0 {
				require.Equal(t, tc.np.Spec, kept.object.Spec)
				return
			}
			require.Empty(t, kept.object.Spec.Ingress)
			require.Len(t, kept.object.Spec.PolicyTypes, tc.types)
			require.Zero(t, kept.size)
		})
	}
}

// A policy whose text was dropped comes back when there is room, with another list; no
// more than one is asked for in a minute.
func TestRoomForWhatWasDropped(t *testing.T) {
	cl, r := newCluster(), &recorder{}
	for i := range 3 {
		cl.policies.set(ofRules("x", fmt.Sprint("p", i), 4, 0))
	}
	run(t, Config{Source: cl.source(), Applier: r, Budgets: few}, func(t *testing.T, c *Controller) {
		shut := func() (names []string) {
			for _, name := range []string{"p0", "p1", "p2"} {
				if np := c.policies.get(cache.ObjectName{Namespace: "x", Name: name}); np != nil && policy.Excess(&np.object.Spec) != "" {
					require.Empty(t, np.object.Spec.Ingress)
					names = append(names, name)
				}
			}
			return names
		}
		require.Equal(t, []string{"p0", "p1", "p2"}, shut())
		require.Equal(t, 1, cl.policies.listed())

		cl.policies.remove(ofRules("x", "p0", 4, 0))
		synctest.Wait()
		time.Sleep(3 * time.Second) // a reflector that has to list again waits a little
		synctest.Wait()
		require.Empty(t, shut())
		require.Equal(t, 2, cl.policies.listed())

		for range 5 {
			cl.policies.set(ofRules("x", "p0", 4, 0))
			synctest.Wait()
			cl.policies.remove(ofRules("x", "p0", 4, 0))
			synctest.Wait()
		}
		time.Sleep(relistPause / 2)
		require.Equal(t, 2, cl.policies.listed())
		require.Equal(t, []string{"p1", "p2"}, shut())
		pass(relistPause)
		require.Equal(t, 3, cl.policies.listed())
		require.Empty(t, shut())
	})
}

// policyServer answers for policies as an API server does.
func policyServer(t *testing.T, policies ...*networkingv1.NetworkPolicy) http.Handler {
	t.Helper()
	list := &networkingv1.NetworkPolicyList{TypeMeta: kind("networking.k8s.io/v1", "NetworkPolicyList"), ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for _, np := range policies {
		list.Items = append(list.Items, *np)
	}
	body := encoded(t, list)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			w.Header().Set("Content-Type", k8sruntime.ContentTypeProtobuf)
			_, _ = w.Write(body)
			return
		}
		w.Header().Set("Content-Type", k8sruntime.ContentTypeProtobuf+";stream=watch")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
}

// Over the wire policies are what they are, and those that are over their budget closed.
func TestPoliciesOverTheWire(t *testing.T) {
	ok := ofRules("x", "ok", 2, 5)
	ok.Spec.PodSelector.MatchLabels = map[string]string{"app": "a"}
	source := sourceOf(t, policyServer(t, ok, ofRules("x", "big", 5000, 6)), "")
	s := storeOf(keptPolicies(few), &keys{})
	informer := newInformer(KindPolicy, s, source.Policies, klog.Logger{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); informer.run(ctx) }()
	<-informer.synced
	cancel()
	<-done
	closed, open := closedIn(s)
	require.Equal(t, []string{"x/big"}, closed)
	require.Equal(t, []string{"x/ok"}, open)
	kept := s.get(cache.ObjectName{Namespace: "x", Name: "ok"})
	require.Equal(t, ok.Spec.PodSelector, kept.object.Spec.PodSelector)
	require.Len(t, kept.object.Spec.Ingress, 2)
	require.Equal(t, "5", kept.object.ResourceVersion)

	list, err := cache.ToListerWatcherWithContext(source.Policies).ListWithContext(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.(*networkingv1.NetworkPolicyList).Items[1].Spec.Ingress, 5000, "who lists them whole has them whole")
}

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// crdServer is an API server whose ClusterNetworkPolicies come and go.
type crdServer struct {
	*apiServer

	mu    sync.Mutex // guards following
	fail  error      // of every request
	asked int        // requests of any kind
}

func serveClusters(fail error, policies ...*v1alpha2.ClusterNetworkPolicy) *crdServer {
	return &crdServer{apiServer: serve(func() runtime.Object { return &v1alpha2.ClusterNetworkPolicyList{} }, policies...), fail: fail}
}

func (s *crdServer) ask() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.fail
}

func (s *crdServer) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// setFail has every request fail, and ends all watches.
func (s *crdServer) setFail(err error) {
	s.mu.Lock()
	s.fail = err
	s.mu.Unlock()
	s.cut()
}

// setAbsent takes the CRD away: its objects are gone, and nobody was told.
func (s *crdServer) setAbsent() {
	s.apiServer.mu.Lock()
	clear(s.objects)
	s.apiServer.mu.Unlock()
	s.setFail(fmt.Errorf("%w: %w", ErrNoKind, errNotFound))
}

var (
	errNotFound  = apierrors.NewNotFound(v1alpha2.Resource(clusterResource), "")
	errForbidden = apierrors.NewForbidden(v1alpha2.Resource(clusterResource), "", nil)
)

func (s *crdServer) ListWithContext(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := s.ask(); err != nil {
		return nil, err
	}
	return s.List(options)
}

func (s *crdServer) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	switch err := s.ask(); {
	case errors.Is(err, ErrNoKind):
		return nil, errNotFound
	case err != nil:
		return nil, err
	}
	return s.Watch(options)
}

func newClusterPolicy(name string, nodes bool) *v1alpha2.ClusterNetworkPolicy {
	p := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha2.ClusterNetworkPolicySpec{
		Tier: v1alpha2.AdminTier, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
	}}
	if nodes {
		p.Spec.Egress = []v1alpha2.ClusterNetworkPolicyEgressRule{{Action: "Deny", To: []v1alpha2.ClusterNetworkPolicyEgressPeer{{Nodes: &metav1.LabelSelector{}}}}}
	}
	return p
}

// clusterStates returns what the transactions say of cluster policies, in order.
func clusterStates(r *recorder) (out []string) {
	for _, a := range r.calls() {
		for name, p := range a.clusters {
			is := "set"
			if p == nil {
				is = "deleted"
			}
			out = append(out, name+" "+is)
		}
	}
	return out
}

// TestKindComesAndGoes: without the CRD the agent works, asks seldom, and logs nothing but
// that the kind came and went. What it said is deleted when it goes.
func TestKindComesAndGoes(t *testing.T) {
	cl, r := newCluster(), &recorder{}
	crd := serveClusters(ErrNoKind)
	source := cl.source()
	source.ClusterPolicies, source.AllNodes = crd, cl.nodes
	run(t, Config{Source: source, Applier: r}, func(t *testing.T, c *Controller) {
		require.Len(t, r.calls(), 1, "no CRD is no reason to wait")
		require.NoError(t, c.Ready())
		before := crd.requests()
		require.LessOrEqual(t, before, 2)
		pass(time.Hour)
		require.LessOrEqual(t, crd.requests()-before, 120, "two requests a minute")
		require.GreaterOrEqual(t, crd.requests()-before, 90)
		require.NoError(t, c.Ready())
		require.Less(t, c.Staleness()[KindClusterPolicy], 2*askAgain, "a server that has no such kind says so")

		for range 2 {
			crd.setFail(nil)
			crd.set(newClusterPolicy("a", false))
			pass(2 * askAgain)
			require.Equal(t, "a set", last(clusterStates(r)))
			crd.setAbsent()
			pass(2 * askAgain)
			require.Equal(t, "a deleted", last(clusterStates(r)))
			require.NoError(t, c.Ready())
		}
		require.Len(t, clusterStates(r), 4)
	})
}

func last(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// TestErrorIsNotAbsence: an error of a list says nothing of what there is. At the start
// everything waits, as what is denied is not known. Later what was known stays.
func TestErrorIsNotAbsence(t *testing.T) {
	for name, fail := range map[string]error{
		"forbidden":   errForbidden,
		"not found":   errNotFound, // and the server does not say that it has no such kind
		"unavailable": apierrors.NewServiceUnavailable("starting"),
		"internal":    apierrors.NewInternalError(errDown),
		"down":        errDown,
	} {
		t.Run(name, func(t *testing.T) {
			cl, r := newCluster(), &recorder{}
			crd := serveClusters(fail, newClusterPolicy("a", false))
			source := cl.source()
			source.ClusterPolicies, source.AllNodes = crd, cl.nodes
			run(t, Config{Source: source, Applier: r}, func(t *testing.T, c *Controller) {
				pass(time.Hour)
				require.Empty(t, r.calls(), "nothing is loosened before all is known")
				require.ErrorContains(t, c.Ready(), fail.Error())
				require.LessOrEqual(t, crd.requests(), 300, "the errors back off")

				crd.setFail(nil)
				pass(time.Minute)
				require.Equal(t, []string{"a set"}, clusterStates(r))
				require.NoError(t, c.Ready())

				crd.setFail(fail)
				pass(time.Hour)
				require.Equal(t, []string{"a set"}, clusterStates(r), "what was known stays in force")
				require.ErrorContains(t, c.Ready(), fail.Error())
			})
		})
	}
}

// TestStatusBringsNoKey: what others write into the status of a policy changes nothing.
func TestStatusBringsNoKey(t *testing.T) {
	cl, r := newCluster(), &recorder{}
	p := newClusterPolicy("a", false)
	p.Generation = 1
	crd := serveClusters(nil, p)
	source := cl.source()
	source.ClusterPolicies, source.AllNodes = crd, cl.nodes
	run(t, Config{Source: source, Applier: r}, func(t *testing.T, _ *Controller) {
		p.Status.Conditions = []metav1.Condition{{Type: "x"}}
		crd.set(p)
		pass(time.Minute)
		require.Len(t, r.calls(), 1)
		p.Generation, p.Spec.Priority = 2, 7
		crd.set(p)
		pass(time.Minute)
		require.Equal(t, []string{"a set", "a set"}, clusterStates(r))
	})
}

// TestOtherSpecOfOneGeneration: after a restore of etcd, an edit can give a policy the generation and
// the resource version that another spec had before.
func TestOtherSpecOfOneGeneration(t *testing.T) {
	k := &keys{}
	t.Run("ClusterNetworkPolicy", func(t *testing.T) {
		clusters := storeOf(keptClusters(), k)
		p := newClusterPolicy("a", true)
		p.UID, p.Generation, p.ResourceVersion = "u", 2, "7"
		require.NoError(t, clusters.set(p))
		require.NoError(t, relist(clusters, p.DeepCopy()))
		require.Len(t, k.take(), 1)
		p = p.DeepCopy()
		p.Spec.Egress[0].Action = "Accept"
		require.NoError(t, relist(clusters, p))
		require.Len(t, k.take(), 1)
		kept := clusters.get(cache.ObjectName{Name: "a"})
		require.Equal(t, p.Spec, kept.object.Spec)
	})
	t.Run("NetworkPolicy", func(t *testing.T) {
		policies := storeOf(keptPolicies(few), k)
		p := ofRules("x", "a", 1, 7)
		require.NoError(t, policies.set(p))
		require.NoError(t, relist(policies, p.DeepCopy()))
		require.Len(t, k.take(), 1)
		p = ofRules("x", "a", 2, 7)
		require.NoError(t, relist(policies, p))
		require.Len(t, k.take(), 1)
		kept := policies.get(cache.ObjectName{Namespace: "x", Name: "a"})
		require.Equal(t, p.Spec, kept.object.Spec)
	})
}

// TestNodesAreWatchedOnceNamed: the nodes of the cluster are read when a policy names nodes, and come
// with it in one transaction or before. They stay watched after it.
func TestNodesAreWatchedOnceNamed(t *testing.T) {
	cl, r := newCluster(), &recorder{}
	crd := serveClusters(nil, newClusterPolicy("plain", false))
	all := serve(cl.nodes.newEmpty(), newNode("n1", "10.9.0.1"), newNode("n2", "10.9.0.2"))
	source := cl.source()
	source.ClusterPolicies, source.AllNodes = crd, all
	run(t, Config{Source: source, Applier: r}, func(t *testing.T, c *Controller) {
		quiet := func() {
			pass(time.Minute)
		}
		quiet()
		require.Zero(t, all.listed(), "nobody names nodes")
		crd.set(newClusterPolicy("a", true))
		quiet()
		require.Equal(t, 1, all.listed())
		seen := map[string]*state.NodeDump{}
		for _, call := range r.calls() {
			for name, n := range call.nodes {
				seen[name] = n
			}
			if _, named := call.clusters["a"]; named {
				require.Len(t, seen, 2, "the nodes are there before what denies them")
				require.Equal(t, newClusterPolicy("a", true).Spec, call.clusters["a"].Spec)
			}
		}
		require.Equal(t, []string{"plain set", "a set"}, slices.Compact(clusterStates(r)), "a key that waits for nodes may come again")

		applied := len(r.calls())
		heartbeat := newNode("n2", "10.9.0.2")
		heartbeat.Annotations = map[string]string{"beat": "1"}
		all.set(heartbeat)
		quiet()
		require.Len(t, r.calls(), applied, "a heartbeat brings no key")

		crd.remove(newClusterPolicy("a", true))
		quiet()
		all.set(newNode("n3", "10.9.0.3"))
		quiet()
		require.Equal(t, 1, all.listed(), "the nodes stay watched")
		require.NoError(t, c.Ready())
	})
}

// TestNodesThatAreMissing: while the nodes cannot be listed, a policy that names them waits,
// ten seconds at most, and is closed then until they are known.
func TestNodesThatAreMissing(t *testing.T) {
	closed := policy.WithoutNodes(newClusterPolicy("a", true)).Spec
	for _, atStart := range []bool{true, false} {
		t.Run(fmt.Sprint("at start=", atStart), func(t *testing.T) {
			cl, r := newCluster(), &recorder{}
			crd := serveClusters(nil)
			all := serve(cl.nodes.newEmpty(), newNode("n2", "10.9.0.2"))
			all.setDown(errForbidden)
			source := cl.source()
			source.ClusterPolicies, source.AllNodes = crd, all
			if atStart {
				crd.set(newClusterPolicy("a", true))
			}
			run(t, Config{Source: source, Applier: r}, func(t *testing.T, c *Controller) {
				if !atStart {
					crd.set(newClusterPolicy("a", true))
				}
				pass(nodesPatience - time.Second)
				require.Empty(t, clusterStates(r))
				require.Equal(t, atStart, len(r.calls()) == 0, "at the start everything waits")
				pass(2 * time.Second)
				require.Equal(t, []string{"a set"}, clusterStates(r))
				calls := r.calls()
				require.Equal(t, closed, calls[len(calls)-1].clusters["a"].Spec)
				require.ErrorContains(t, c.Ready(), "list all nodes")

				all.setDown(nil)
				pass(time.Minute)
				calls = r.calls()
				require.Equal(t, newClusterPolicy("a", true).Spec, calls[len(calls)-1].clusters["a"].Spec)
				require.NoError(t, c.Ready())
			})
		})
	}
}

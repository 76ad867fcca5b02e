package dataplane_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/effort"
)

const (
	b8Policies = 20 // each edited and deleted many times
	b8Pods     = 8
)

var b8Events = effort.Of(200, 1000, 1000)

// b8Policy is a policy in one of its versions.
func b8Policy(t testing.TB, n, version int) *networkingv1.NetworkPolicy {
	t.Helper()
	name := fmt.Sprintf("p%d", n)
	_, text, _ := strings.Cut(policyText(name, fmt.Sprintf(
		`{podSelector: {matchLabels: {app: a%d}}, ingress: [{from: [{podSelector: {matchLabels: {app: a%d}}}, {namespaceSelector: {matchLabels: {team: t%d}}}], ports: [{port: %d}]}]}`,
		n%4, version%4, version%2, version%3+80)), " --\n")
	var np networkingv1.NetworkPolicy
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &np))
	return &np
}

// b8Pod is a local pod with one of its labels.
func b8Pod(n, version int) desired.Pod {
	name := fmt.Sprintf("w%d", n)
	return desired.Pod{
		Namespace: "x", Name: name, UID: types.UID(name), Local: true, Addr: mustAddr(fmt.Sprintf("10.0.0.%d", n+1)),
		Labels: map[string]string{"app": fmt.Sprintf("a%d", version%4)},
	}
}

func b8World(t *testing.T) *script {
	w := newWorld(t, "")
	w.do("namespace x team=t0", "namespace y team=t1", "pod y/r 10.0.1.1 app=a1 remote")
	for n := range b8Pods {
		w.do(fmt.Sprintf("endpoint ep-%d 10.0.0.%d", n, n+1))
		w.tx.SetPod(b8Pod(n, 0))
	}
	w.do("apply")
	return w
}

// TestScenario_B8_PoliciesWhilePodsAreRelabelled: a thousand edits and deletes of
// policies, relabels of every pod and a reconciler, all at once, with readers in
// between. Everybody comes to an end, nothing is refused, and what is there then
// is what the last states alone give.
func TestScenario_B8_PoliciesWhilePodsAreRelabelled(t *testing.T) {
	w := b8World(t)
	ctx := t.Context()
	apply := func(tx *dataplane.Transaction) {
		report, err := w.dp.ApplyDataplane(ctx, tx)
		if err != nil || len(report.Errors) > 0 {
			t.Error(err, report.Errors)
		}
	}
	edited := make([]*networkingv1.NetworkPolicy, b8Events)
	for i := range edited {
		if i%3 != 2 {
			edited[i] = b8Policy(t, i%b8Policies, i)
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		for i, np := range edited {
			tx := dataplane.NewTransaction()
			if np == nil {
				tx.DeletePolicy(policy.Key{Namespace: "x", Name: fmt.Sprintf("p%d", i%b8Policies)})
			} else {
				tx.SetPolicy(np)
			}
			apply(tx)
		}
	})
	all.Go(func() {
		for i := range b8Events / 4 {
			tx := dataplane.NewTransaction()
			tx.SetPod(b8Pod(i%b8Pods, i/b8Pods+i))
			apply(tx)
		}
	})
	all.Go(func() {
		for range b8Events / 20 {
			obs, err := w.dp.Observe(ctx, dataplane.Everything())
			if err != nil {
				t.Error(err)
			}
			tx := dataplane.NewTransaction()
			tx.SetObservation(obs)
			apply(tx)
		}
	})
	all.Go(func() {
		for range b8Events / 5 {
			if n := len(w.dp.Dump().Pods); n != b8Pods+1 {
				t.Errorf("%d pods in the dump", n)
			}
			w.dp.Stats()
			w.dp.Warnings()
		}
	})
	all.Wait()
	w.settle()
	require.Zero(t, pinned(w.dp.Dump()))

	want := b8World(t)
	for _, np := range edited[b8Events-b8Policies:] {
		if np != nil {
			want.tx.SetPolicy(np)
		}
	}
	for i := b8Events/4 - b8Pods; i < b8Events/4; i++ {
		want.tx.SetPod(b8Pod(i%b8Pods, i/b8Pods+i))
	}
	want.settle()
	require.Empty(t, cmp.Diff(want.sim.Dump(), w.sim.Dump()))
	require.NotEmpty(t, want.sim.Sets())
}

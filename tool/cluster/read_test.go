package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/manifest"
)

// TestNodeThatIsNotThere: a node that no manifest has is a slip, where there are nodes.
func TestNodeThatIsNotThere(t *testing.T) {
	const nodes = "{apiVersion: v1, kind: Node, metadata: {name: win-1}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: linux-22}}\n"
	for node, want := range map[string]string{
		"win-2": `no Node is called "win-2"; did you mean win-1?`,
		"x":     `no Node is called "x"; did you mean linux-22?`,
		"win-1": "",
		"":      "",
	} {
		_, err := Read(t.Context(), Options{Manifests: []string{"-"}, Node: node, Stdin: strings.NewReader(nodes)})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
	}
	_, err := Read(t.Context(), Options{Manifests: []string{"-"}, Node: "any", Stdin: strings.NewReader("{apiVersion: v1, kind: Pod, metadata: {name: a}}")})
	require.NoError(t, err)
}

// sourceOf is a cluster without objects, whose policies are listed by a function.
func sourceOf(policies func(context.Context) error) controllers.Source {
	list := func(do func(context.Context) error) cache.ListerWatcher {
		return &cache.ListWatch{ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			return &metav1.List{}, do(ctx)
		}}
	}
	none := list(func(context.Context) error { return nil })
	return controllers.Source{Pods: none, Namespaces: none, ClusterPolicies: none, Nodes: none, AllNodes: none, Policies: list(policies)}
}

// A server that never gives a list ends the command after 15 seconds, and one that refuses at once.
func TestServerWithoutList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := list(t.Context(), sourceOf(func(context.Context) error { return errors.New("no route to host") }))
		require.EqualError(t, err, "no route to host")
		require.Equal(t, time.Duration(0), time.Since(began))
		_, err = list(t.Context(), sourceOf(func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("list networkpolicies: %w", ctx.Err())
		}))
		require.EqualError(t, err, "no answer within 15s")
		require.Equal(t, firstList, time.Since(began))
	})
}

// A world has the policies of all tiers, and all nodes for their peers, whatever
// node it is about.
func TestWorldHasTiers(t *testing.T) {
	for _, node := range []string{"", "win-1"} {
		w, err := Read(t.Context(), Options{Manifests: []string{"../../examples/tiers"}, Node: node})
		require.NoError(t, err)
		require.Len(t, w.ClusterPolicies, 3)
		addrs := []netip.Addr{netip.MustParseAddr("10.240.0.4")}
		dump := state.NodeDump{Name: "win-1", Labels: map[string]string{"kubernetes.io/os": "windows"}, Addrs: addrs}
		require.Equal(t, []Node{{NodeDump: dump, Internal: addrs}}, w.listed())
	}
}

// TestOlderPolicies: a kind of the version before is found when there is an object of it,
// and not where the server has it not, or does not let us list it.
func TestOlderPolicies(t *testing.T) {
	const older = "/apis/policy.networking.k8s.io/v1alpha1/"
	const of = `{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", `
	for name, tc := range map[string]struct {
		of   map[string]any
		want []string
	}{
		"nothing":      {map[string]any{}, nil},
		"no rights":    {map[string]any{older + "adminnetworkpolicies": 403, older + "baselineadminnetworkpolicies": 403}, nil},
		"none of them": {map[string]any{older + "adminnetworkpolicies": of + `"items": []}`}, nil},
		"both": {map[string]any{
			older + "adminnetworkpolicies":         of + `"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "x"}}`,
			older + "baselineadminnetworkpolicies": of + `"items": [{"metadata": {"name": "default"}}]}`,
		}, []string{"AdminNetworkPolicy a tier Admin", "BaselineAdminNetworkPolicy default tier Baseline"}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				switch is := tc.of[r.URL.Path].(type) {
				case string:
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write([]byte(is))
				case int:
					http.Error(w, "no", is)
				default:
					http.NotFound(w, r)
				}
			}))
			defer server.Close()
			var got []string
			for _, w := range olderPolicies(t.Context(), &rest.Config{Host: server.URL}) {
				require.Equal(t, state.Reason("NotEnforced"), w.Reason)
				require.True(t, manifest.Misleads(w))
				_, tier, _ := strings.Cut(w.Message, "of tier ")
				got = append(got, fmt.Sprintf("%s %s tier %s", w.Kind, w.Object, strings.TrimSuffix(tier, " of each")))
			}
			require.Equal(t, tc.want, got)
			require.Equal(t, 2, asked)
		})
	}
}

// TestOwners: a Deployment's pods are those of its ReplicaSets, a CronJob's those of its Jobs.
func TestOwners(t *testing.T) {
	yes := true
	for _, c := range []struct {
		kind, name, hash string
		want             []string
	}{
		{"ReplicaSet", "web-abc", "abc", []string{"ReplicaSet x/web-abc", "Deployment x/web"}},
		{"ReplicaSet", "web-abc", "abd", []string{"ReplicaSet x/web-abc"}},
		{"ReplicaSet", "web", "", []string{"ReplicaSet x/web"}},
		{"Job", "report-29384720", "", []string{"Job x/report-29384720", "CronJob x/report"}},
		{"Job", "report-1763083200", "", []string{"Job x/report-1763083200", "CronJob x/report"}}, // of an older version
		{"Job", "report-2", "", []string{"Job x/report-2"}},
		{"Job", "backup-20260101", "", []string{"Job x/backup-20260101"}}, // a date is no time in minutes
		{"Job", "backup-2026010112", "", []string{"Job x/backup-2026010112"}},
		{"Job", "backup-20260101123000", "", []string{"Job x/backup-20260101123000"}},
		{"Job", "report-31132026", "", []string{"Job x/report-31132026", "CronJob x/report"}},
		{"Job", "backup-45678901", "", []string{"Job x/backup-45678901"}}, // of the year 2056
		{"Job", "report-2938472x", "", []string{"Job x/report-2938472x"}},
		{"StatefulSet", "db", "", []string{"StatefulSet x/db"}},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Labels: map[string]string{"pod-template-hash": c.hash}, OwnerReferences: []metav1.OwnerReference{{Kind: c.kind, Name: c.name, Controller: &yes}}}}
		require.Equal(t, c.want, owners(p, nil))
	}
	require.Nil(t, owners(&corev1.Pod{}, nil))
}

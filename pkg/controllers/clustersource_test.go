package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/policy"
)

const (
	groupPath = "/apis/policy.networking.k8s.io/v1alpha2"
	listPath  = groupPath + "/clusternetworkpolicies"
)

// answersNoKind answers what is about ClusterNetworkPolicies as a server without them.
func answersNoKind(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.URL.Path == "/apis":
		writeJSON(w, metav1.APIGroupList{TypeMeta: kind("v1", "APIGroupList")})
	case strings.HasPrefix(r.URL.Path, "/apis/policy.networking.k8s.io/"):
		http.NotFound(w, r)
	default:
		return false
	}
	return true
}

func writeJSON(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// answers are what a server says to paths: a text of JSON, or the code of an error.
type answers struct{ of map[string]any }

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch is := a.of[r.URL.Path].(type) {
	case string:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(is))
	case int:
		http.Error(w, "no", is)
	default:
		http.NotFound(w, r)
	}
}

// sourceOf returns the sources of an API server.
func sourceOf(t *testing.T, server http.Handler, node string) Source {
	t.Helper()
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	source, err := ClusterSource(&rest.Config{Host: web.URL}, node)
	require.NoError(t, err)
	return source
}

func clusterSourceOf(t *testing.T, h http.Handler) clusterSource {
	t.Helper()
	return sourceOf(t, h, "").ClusterPolicies.(clusterSource)
}

// TestNoKind: no list but one that the server's own list of kinds explains counts as one of
// a server without the kind.
func TestNoKind(t *testing.T) {
	const (
		noGroups  = `{"kind": "APIGroupList", "groups": [{"name": "policy.networking.k8s.io", "versions": [{"version": "v1alpha1"}]}]}`
		hasGroup  = `{"kind": "APIGroupList", "groups": [{"name": "policy.networking.k8s.io", "versions": [{"version": "v1alpha2"}]}]}`
		hasKind   = `{"kind": "APIResourceList", "resources": [{"name": "clusternetworkpolicies"}]}`
		otherKind = `{"kind": "APIResourceList", "resources": [{"name": "others"}]}`
	)
	for name, tc := range map[string]struct {
		of     map[string]any
		absent bool
	}{
		"the server has no such version":           {map[string]any{"/apis": noGroups}, true},
		"the server has another kind of it":        {map[string]any{groupPath: otherKind}, true},
		"nobody may ask for kinds":                 {map[string]any{groupPath: 403}, true},
		"forbidden, and the kind is not there":     {map[string]any{listPath: 403, "/apis": noGroups}, true},
		"forbidden":                                {map[string]any{listPath: 403, groupPath: hasKind}, false},
		"forbidden, nobody may ask for kinds":      {map[string]any{listPath: 403, groupPath: 403}, false},
		"forbidden, the server says nothing else":  {map[string]any{listPath: 403, groupPath: 503}, false},
		"unauthorized":                             {map[string]any{listPath: 401}, false},
		"something before the server knows no one": {map[string]any{}, false},
		"it answers with something else":           {map[string]any{"/apis": `{"kind": "Status"}`}, false},
		"a list fails and the kind is there":       {map[string]any{groupPath: hasKind}, false},
		"the version is on its way":                {map[string]any{"/apis": hasGroup}, false},
		"the server is not ready":                  {map[string]any{listPath: 503, "/apis": noGroups}, false},
		"the server fails":                         {map[string]any{listPath: 500, "/apis": noGroups}, false},
		"the list of kinds fails":                  {map[string]any{groupPath: 500, "/apis": noGroups}, false},
		"another list":                             {map[string]any{listPath: `{"kind": "Status"}`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := clusterSourceOf(t, answers{of: tc.of})
			_, err := s.ListWithContext(t.Context(), metav1.ListOptions{})
			require.Error(t, err)
			if tc.absent {
				require.ErrorIs(t, err, ErrNoKind)
			} else {
				require.NotErrorIs(t, err, ErrNoKind)
			}
		})
	}
}

const onePolicy = `{"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
	"metadata": {"name": "a", "uid": "u", "resourceVersion": "5", "generation": 3, "annotations": {"note": "long"}, "managedFields": [{"manager": "kubectl"}]},
	"spec": {"tier": "Admin", "priority": 4, "subject": {"namespaces": {}}, "egress": [{"action": "Deny", "to": [{"nodes": {}}, {"later": true}]}]},
	"status": {"conditions": [{"type": "x"}]}}`

// TestListOfClusterPolicies checks that only the fields that the agent reads are kept of an
// object, and that a broken list is an error.
func TestListOfClusterPolicies(t *testing.T) {
	s := clusterSourceOf(t, answers{of: map[string]any{
		listPath: `{"apiVersion": "policy.networking.k8s.io/v1alpha2", "items": [` + onePolicy + `, ` + onePolicy + `], "kind": "ClusterNetworkPolicyList", "metadata": {"resourceVersion": "7", "continue": "c"}}`,
	}})
	want := v1alpha2.ClusterNetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "5", Generation: 3},
		Spec: v1alpha2.ClusterNetworkPolicySpec{
			Tier: v1alpha2.AdminTier, Priority: 4, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
			Egress: []v1alpha2.ClusterNetworkPolicyEgressRule{{Action: "Deny", To: []v1alpha2.ClusterNetworkPolicyEgressPeer{{Nodes: &metav1.LabelSelector{}}, {}}}},
		},
	}
	object, err := s.ListWithContext(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	list := object.(*v1alpha2.ClusterNetworkPolicyList)
	require.Equal(t, metav1.ListMeta{ResourceVersion: "7", Continue: "c"}, list.ListMeta)
	require.Len(t, list.Items, 2)
	require.Equal(t, &keptCluster{&want, true}, keptClusters().of(&list.Items[0]))
	require.Equal(t, want.Spec, list.Items[1].Spec)

	const is = `"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicyList"`
	for text, problem := range map[string]string{
		`{"items": [` + onePolicy + `]}`:          `the answer is of kind ""`,
		`{` + is + `, "items": [` + onePolicy:     "unexpected end of JSON input",
		`{` + is + `, "items": {}}`:               "cannot unmarshal object",
		`[1, 2, 3]`:                               "cannot unmarshal array",
		`{` + is + `, "items": [{"metadata":7}]}`: "decode a ClusterNetworkPolicy",
	} {
		s := clusterSourceOf(t, answers{of: map[string]any{listPath: text}})
		_, err := s.ListWithContext(t.Context(), metav1.ListOptions{})
		require.ErrorContains(t, err, problem, text)
	}
}

// TestClusterSpecCloses: a spec that is too large, or cannot be read, denies where it did
// more than accept, and keeps the others readable.
func TestClusterSpecCloses(t *testing.T) {
	many := func(one string, n int) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	large := many(`{"namespaces":{}}`, 70_000)
	subject := `"subject":{"namespaces":{"matchLabels":{"a":"b"}}}`
	for name, tc := range map[string]struct {
		spec     string
		closed   bool
		denies   []policy.Direction
		everyPod bool
	}{
		"ordinary":         {spec: `{"tier":"Admin",` + subject + `,"ingress":[{"action":"Deny","from":[{"namespaces":{}}]}]}`, denies: []policy.Direction{policy.Ingress}},
		"too many peers":   {spec: `{"tier":"Admin",` + subject + `,"ingress":[{"action":"Deny","from":[` + large + `]}],"egress":[{"action":"Accept"}]}`, closed: true, denies: []policy.Direction{policy.Ingress}},
		"the accepts":      {spec: `{"tier":"Admin",` + subject + `,"egress":[{"action":"Accept","to":[` + large + `]}]}`, closed: true},
		"a large subject":  {spec: `{"tier":"Admin","subject":{"namespaces":{"matchLabels":{"a":"` + strings.Repeat("x", 2<<20) + `"}}},"egress":[{"action":"Pass"}]}`, closed: true, denies: []policy.Direction{policy.Egress}, everyPod: true},
		"a number as text": {spec: `{"tier":"Admin","priority":"x",` + subject + `,"egress":[{"action":"Deny"}]}`, closed: true, denies: []policy.Direction{policy.Ingress, policy.Egress}, everyPod: true},
		"a peer as text":   {spec: `{"tier":"Admin",` + subject + `,"egress":[{"action":"Deny","to":"all"}]}`, closed: true, denies: []policy.Direction{policy.Egress}},
		"no object":        {spec: `7`, closed: true, denies: []policy.Direction{policy.Ingress, policy.Egress}, everyPod: true},
	} {
		t.Run(name, func(t *testing.T) {
			var p lightCluster
			require.NoError(t, json.Unmarshal([]byte(`{"metadata":{"name":"p"},"spec":`+tc.spec+`}`), &p))
			out := policy.CompileCluster(&p.ClusterNetworkPolicy)
			require.Equal(t, tc.closed, out.Found[policy.ReasonOverBudget] == 1, "%v", out.Problems)
			require.Equal(t, tc.everyPod, out.Namespaces.Matches(nil))
			var denies []policy.Direction
			for _, r := range out.Rules {
				if r.Action == policy.Deny {
					denies = append(denies, r.Direction)
				}
			}
			require.Equal(t, tc.denies, denies)
			kept, err := json.Marshal(p.Spec)
			require.NoError(t, err)
			require.Less(t, len(kept), 1000)
		})
	}
}

// TestWatchOfClusterPolicies: what a watch brings is decoded like a list.
func TestWatchOfClusterPolicies(t *testing.T) {
	s := clusterSourceOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"type": "ADDED", "object": %s}`, onePolicy)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := cache.ToListerWatcherWithContext(s).WatchWithContext(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	defer w.Stop()
	event := <-w.ResultChan()
	require.Equal(t, watch.Added, event.Type)
	require.Equal(t, int32(4), event.Object.(*lightCluster).Spec.Priority)
}

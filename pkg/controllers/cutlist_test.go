package controllers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// answeredBy returns the sources of an API server that answers every request with one text.
func answeredBy(t *testing.T, contentType string, body []byte) Source {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body)
	}))
	t.Cleanup(web.Close)
	source, err := ClusterSource(&rest.Config{Host: web.URL}, "n1")
	require.NoError(t, err)
	return source
}

// TestCutOffJSONLists checks that a list of JSON that ends before its last brace is an error,
// wherever that is. What came until then is no whole list.
func TestCutOffJSONLists(t *testing.T) {
	var body string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", k8sruntime.ContentTypeJSON)
		_, _ = w.Write([]byte(body))
	}))
	defer web.Close()
	source, err := ClusterSource(&rest.Config{Host: web.URL}, "n1")
	require.NoError(t, err)
	for kind, of := range map[string]struct {
		version string
		from    cache.ListerWatcher
	}{
		"PodList":                  {"v1", source.Pods},
		"NetworkPolicyList":        {"networking.k8s.io/v1", source.Policies},
		"ClusterNetworkPolicyList": {"policy.networking.k8s.io/v1alpha2", source.ClusterPolicies},
	} {
		read := func() (objects int, err error) {
			_, err = newInformer(KindPod, nil, of.from, klog.Logger{}).page(t.Context(), metav1.ListOptions{}, func(k8sruntime.Object) error {
				objects++
				return nil
			})
			return objects, err
		}
		for _, whole := range []string{
			`{"apiVersion": "VERSION", "kind": "LIST", "metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}`,
			`{"items": [{"metadata": {"name": "a"}}], "metadata": {"resourceVersion": "7"}, "apiVersion": "VERSION", "kind": "LIST"}`,
		} {
			whole = strings.NewReplacer("VERSION", of.version, "LIST", kind).Replace(whole)
			body = whole
			objects, err := read()
			require.NoError(t, err, kind)
			require.Equal(t, strings.Count(whole, "name"), objects)
			for n := range whole {
				body = whole[:n]
				_, err := read()
				require.Error(t, err, "%s", body)
			}
		}
	}
}

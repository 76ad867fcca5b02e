package controllers

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// TestListOfAnotherKind: an answer with code 200 and another kind is an error, and not a cluster
// without such objects.
func TestListOfAnotherKind(t *testing.T) {
	at := metav1.ListMeta{ResourceVersion: "7"}
	answers := map[string]k8sruntime.Object{
		"PodList":           &corev1.PodList{TypeMeta: kind("v1", "PodList"), ListMeta: at},
		"NamespaceList":     &corev1.NamespaceList{TypeMeta: kind("v1", "NamespaceList"), ListMeta: at},
		"NodeList":          &corev1.NodeList{TypeMeta: kind("v1", "NodeList"), ListMeta: at},
		"NetworkPolicyList": &networkingv1.NetworkPolicyList{TypeMeta: kind("networking.k8s.io/v1", "NetworkPolicyList"), ListMeta: at},
		"":                  &corev1.PodList{ListMeta: at},
		"List":              &corev1.List{TypeMeta: kind("v1", "List"), ListMeta: at},
		"Status":            &metav1.Status{TypeMeta: kind("v1", "Status"), ListMeta: at, Status: metav1.StatusSuccess},
	}
	said := &oneAnswer{}
	source := sourceOf(t, said, "n1")
	for _, asked := range []struct {
		name, kind string
		of         cache.ListerWatcher
	}{
		{"pods", "PodList", source.Pods},
		{"namespaces", "NamespaceList", source.Namespaces},
		{"policies", "NetworkPolicyList", source.Policies},
		{"node", "NodeList", source.Nodes},
		{"cluster policies", "ClusterNetworkPolicyList", source.ClusterPolicies},
		{"nodes", "NodeList", source.AllNodes},
	} {
		list := func() error {
			list, err := cache.ToListerWatcherWithContext(asked.of).ListWithContext(t.Context(), metav1.ListOptions{})
			if err == nil {
				_, err = meta.ExtractList(list) // as a reflector does
			}
			_, eachErr := newInformer(KindPod, nil, asked.of, klog.Logger{}).page(t.Context(), metav1.ListOptions{}, func(k8sruntime.Object) error { return nil })
			require.Equal(t, err == nil, eachErr == nil, "%v, object by object %v", err, eachErr)
			return err
		}
		for name, answer := range answers {
			text, err := json.Marshal(answer)
			require.NoError(t, err)
			for said.contentType, said.body = range map[string][]byte{k8sruntime.ContentTypeProtobuf: encoded(t, answer), k8sruntime.ContentTypeJSON: text} {
				if name == asked.kind {
					require.NoError(t, list(), "%s as %s", asked.name, said.contentType)
				} else {
					require.Error(t, list(), "%s for %s as %s", name, asked.name, said.contentType)
				}
			}
		}
	}
}

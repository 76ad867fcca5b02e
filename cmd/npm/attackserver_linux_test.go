package main

import (
	"context"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/winnpm/winnpm/test/hostile/cluster"
)

// attackServer serves a cluster over the network, in protobuf, and takes whatever is
// written to it for good.
type attackServer struct{ *cluster.Server }

// protobuf is how Kubernetes writes it.
var protobuf, _ = runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)

// encoder adds to an object what kind it is.
var encoder = scheme.Codecs.WithoutConversion().EncoderForVersion(protobuf.Serializer, nil)

// lists are an empty list of each kind.
var lists = map[cluster.Kind]runtime.Object{
	cluster.Pods: &corev1.PodList{}, cluster.Namespaces: &corev1.NamespaceList{}, cluster.Policies: &networkingv1.NetworkPolicyList{}, cluster.Nodes: &corev1.NodeList{},
}

// ServeHTTP implements http.Handler.
func (h attackServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, options := r.URL.Query(), metav1.ListOptions{}
	_ = metav1.Convert_url_Values_To_v1_ListOptions(&query, &options, nil) // our own client wrote the query
	switch {
	case r.Method != http.MethodGet:
		_, _ = io.Copy(io.Discard, r.Body) // an Event
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "{}") // a client that has gone is no concern
		return
	case r.URL.Path == "/apis": // there are no ClusterNetworkPolicies
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		return
	}
	kind := cluster.Kind(r.URL.Path)
	if lists[kind] == nil {
		http.NotFound(w, r)
		return
	}
	if !options.Watch {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		_ = encoder.Encode(h.whole(kind), w)
		return
	}
	changes, err := h.Watch(kind, options)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	context.AfterFunc(r.Context(), changes.Stop) // the watch ends with the request
	stream(w, changes.ResultChan())
}

// whole returns the list of all objects of a kind.
func (h attackServer) whole(kind cluster.Kind) runtime.Object {
	list := lists[kind].DeepCopyObject()
	var items []runtime.Object
	is, _ := h.ListEach(kind, func(object runtime.Object) error { // cannot fail
		items = append(items, object)
		return nil
	})
	list.(metav1.ListInterface).SetResourceVersion(is.ResourceVersion)
	_ = meta.SetList(list, items) // of its own kind
	return list
}

// stream sends events until they end or the client goes.
func stream(w http.ResponseWriter, events <-chan watch.Event) {
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	w.WriteHeader(http.StatusOK)
	frames := protobuf.StreamSerializer
	to := restwatch.NewEncoder(streaming.NewEncoder(frames.NewFrameWriter(w), frames.Serializer), encoder)
	flush := http.NewResponseController(w).Flush
	for err := flush(); err == nil; err = flush() {
		e, more := <-events
		if !more || to.Encode(&e) != nil {
			return
		}
	}
}

package main

import (
	"io"
	"net/http"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/winnpm/winnpm/test/hostile/cluster"
)

// attackServer serves a cluster over the network, in protobuf, and takes whatever is
// written to it for good. streams says whether it sends first lists as a watch;
// older API servers do not.
type attackServer struct {
	*cluster.Server
	streams bool
}

// protobuf is how Kubernetes writes it.
var protobuf, _ = runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)

// encoder adds to an object what kind it is.
var encoder = scheme.Codecs.WithoutConversion().EncoderForVersion(protobuf.Serializer, nil)

// ServeHTTP implements http.Handler.
func (h attackServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, query := cluster.Kind(r.URL.Path), r.URL.Query()
	initial := query.Get("sendInitialEvents") != ""
	switch {
	case r.Method != http.MethodGet:
		_, _ = io.Copy(io.Discard, r.Body) // an Event
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "{}") // a client that has gone is no concern
	case r.URL.Path == "/apis": // which says that there are no ClusterNetworkPolicies
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	case !kind.Known():
		http.NotFound(w, r)
	case query.Get("watch") == "":
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		_ = encoder.Encode(h.List(kind), w)
	case initial && !h.streams:
		w.WriteHeader(http.StatusUnprocessableEntity)
	default:
		version, _ := strconv.Atoi(query.Get("resourceVersion")) // none: 0
		events := make(chan watch.Event)
		go h.Send(kind, version, initial, events, r.Context().Done())
		stream(w, events)
	}
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

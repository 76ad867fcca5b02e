package cluster

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// path and type of each kind, as the API has them.
var resources = map[string]struct {
	kind Kind
	meta runtime.TypeMeta
}{
	"/api/v1/pods":       {Pods, runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}},
	"/api/v1/namespaces": {Namespaces, runtime.TypeMeta{APIVersion: "v1", Kind: "Namespace"}},
	"/apis/networking.k8s.io/v1/networkpolicies": {Policies, runtime.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}},
	"/api/v1/nodes": {Nodes, runtime.TypeMeta{APIVersion: "v1", Kind: "Node"}},
}

// HTTP serves a Server over the network, in protobuf, and takes whatever is
// written to it for good. Streams says whether it sends first lists as a watch;
// older API servers do not.
type HTTP struct {
	*Server
	Streams bool
}

// ServeHTTP implements http.Handler.
func (h HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, known := resources[r.URL.Path]
	query := r.URL.Query()
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
	case !known:
		http.NotFound(w, r)
	case query.Get("watch") == "":
		h.list(w, resource.kind, resource.meta)
	case initial && !h.Streams:
		w.WriteHeader(http.StatusUnprocessableEntity)
	default:
		h.stream(w, r, resource.kind, resource.meta, initial)
	}
}

// stream sends a watch until the client goes. Without initial events it begins
// with what the client did not list: as nothing is deleted before a client has
// begun, to send everything once more says the same.
func (h HTTP) stream(w http.ResponseWriter, r *http.Request, kind Kind, meta runtime.TypeMeta, initial bool) {
	from := h.watch(kind)
	defer from.end()
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	w.WriteHeader(http.StatusOK)
	for {
		for _, e := range from.take() {
			switch {
			case e.what != watch.Bookmark:
				frame(w, e.what, envelope(meta, e.object.decoded(e.version)))
			case initial:
				frame(w, e.what, envelope(meta, kind.bookmark(e.version)))
			}
		}
		_ = http.NewResponseController(w).Flush() // a client that has gone is no concern
		select {
		case <-from.more:
		case <-r.Context().Done():
			return
		}
	}
}

// frame writes one event of a watch.
func frame(w io.Writer, what watch.EventType, object []byte) {
	body := encode(&metav1.WatchEvent{Type: string(what), Object: runtime.RawExtension{Raw: object}})
	_, _ = w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(body))))
	_, _ = w.Write(body)
}

// list sends everything in one message, as an API server does that cannot stream.
func (h HTTP) list(w http.ResponseWriter, kind Kind, meta runtime.TypeMeta) {
	field := func(number byte, content []byte) []byte {
		return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(content))), content...)
	}
	from := h.watch(kind)
	from.end()
	var items []byte
	for _, e := range from.take() {
		if e.what == watch.Bookmark {
			items = append(field(1, encode(&metav1.ListMeta{ResourceVersion: fmt.Sprint(e.version)})), items...)
		} else {
			items = append(items, field(2, encode(e.object.decoded(e.version)))...)
		}
	}
	meta.Kind += "List"
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	_, _ = w.Write(append([]byte(magic), encode(&runtime.Unknown{TypeMeta: meta, Raw: items})...))
}

// magic begins what Kubernetes encodes with protobuf.
const magic = "k8s\x00"

// envelope is an object as it stands alone.
func envelope(meta runtime.TypeMeta, o message) []byte {
	return append([]byte(magic), encode(&runtime.Unknown{TypeMeta: meta, Raw: encode(o)})...)
}

func encode(m interface{ Marshal() ([]byte, error) }) []byte {
	text, err := m.Marshal()
	if err != nil {
		panic("BUG: a message always encodes: " + err.Error())
	}
	return text
}

// Kubeconfig writes a file that names a server, into a folder.
func Kubeconfig(folder, url string) (file string, err error) {
	file = filepath.Join(folder, "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], clusters: [{name: a, cluster: {server: "` + url + `"}}]}`
	return file, os.WriteFile(file, []byte(text), 0o600)
}

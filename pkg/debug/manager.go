package debug

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"

	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
)

// podEntry is a pod as the predecessor's dump shows it.
type podEntry struct {
	Name      string
	Namespace string
	PodIP     string
	Labels    map[string]string
}

// namespaceEntry is a namespace as the predecessor's dump shows it.
type namespaceEntry struct {
	LabelsMap map[string]string
}

// writeManager writes a dump as one JSON object, entry by entry, so that a
// large one is never in memory twice. NsMap, PodMap, SetMap and NodeName are the
// predecessor's keys; the others are ours. The last transactions are there unless
// they are nil.
func writeManager(out io.Writer, d state.Dump, transactions []recorder.Step) error {
	w := &writer{out: bufio.NewWriter(out)}
	w.text("{\"NodeName\":")
	w.value(d.Node)
	if !d.Time.IsZero() {
		w.key("time", d.Time)
	}

	w.text(",\"NsMap\":{")
	for i, ns := range d.Namespaces {
		w.entry(i, ns.Name, namespaceEntry{ns.Labels})
	}
	w.text("},\"PodMap\":{")
	for i, p := range d.Pods {
		namespace, name, _ := strings.Cut(p.Pod, "/")
		w.entry(i, p.Pod, podEntry{Name: name, Namespace: namespace, PodIP: p.Addr, Labels: p.Labels})
	}
	w.text("},\"SetMap\":{")
	for i, s := range d.Sets {
		w.entry(i, s.ID, s.Name)
	}
	w.text("}")
	list(w, "sets", d.Sets)
	list(w, "pending", d.Pending)
	list(w, "endpoints", d.Endpoints)
	list(w, "policies", d.Policies)
	if len(d.ClusterPolicies) > 0 {
		list(w, "clusterPolicies", d.ClusterPolicies)
	}
	if len(d.Nodes) > 0 {
		list(w, "nodes", d.Nodes)
	}
	list(w, "pods", d.Pods)
	list(w, "namespaces", d.Namespaces)
	list(w, "nodeAddresses", d.NodeAddrs)
	list(w, "warnings", d.Warnings)
	list(w, "reports", d.Reports)
	w.key("due", d.Due)
	if len(d.Spellings) > 0 {
		list(w, "spellings", d.Spellings)
	}
	if d.OthersCut {
		w.key("othersCut", true)
	}
	if d.Transaction != nil {
		w.key("transaction", d.Transaction)
	}
	if d.LookAge != 0 {
		w.key("lookAge", d.LookAge)
	}
	if transactions != nil {
		list(w, "transactions", transactions)
	}
	w.text("}\n")
	return w.flush()
}

// writer keeps the first error.
type writer struct {
	out *bufio.Writer
	err error
}

func (w *writer) flush() error {
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

func (w *writer) text(s string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(s)
	}
}

func (w *writer) value(v any) {
	if w.err == nil {
		w.err = json.NewEncoder(w.out).Encode(v) // ends in a newline
	}
}

// key writes one more key of an object with its value.
func (w *writer) key(key string, v any) {
	w.text(",\"" + key + "\":")
	w.value(v)
}

// entry writes the i-th entry of an object.
func (w *writer) entry(i int, key string, v any) {
	if i > 0 {
		w.text(",")
	}
	w.value(key)
	w.text(":")
	w.value(v)
}

// list writes one more key with a list as its value, [] when it is empty.
func list[T any](w *writer, key string, values []T) {
	w.text(",")
	firstList(w, key, values)
}

// firstList is list for the first key of an object.
func firstList[T any](w *writer, key string, values []T) {
	w.text("\"" + key + "\":[")
	for i, v := range values {
		if i > 0 {
			w.text(",")
		}
		w.value(v)
	}
	w.text("]")
}

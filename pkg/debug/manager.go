package debug

import (
	"bufio"
	"encoding/json"
	"io"
	"reflect"
	"strings"

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

// writeManager writes a dump as one JSON object, entry by entry, so that the text of a large dump
// is never in memory. NodeName, NsMap, PodMap and SetMap are the predecessor's keys. The other keys
// are the fields of state.Dump.
func writeManager(out io.Writer, d state.Dump) error {
	w := &writer{out: bufio.NewWriter(out)}
	w.text("{\"NodeName\":")
	w.value(d.Node)
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
	fields := reflect.ValueOf(d)
	for i := range fields.NumField() {
		w.field(fields.Type().Field(i).Tag.Get("json"), fields.Field(i))
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

// entry writes the i-th entry of an object.
func (w *writer) entry(i int, key string, v any) {
	if i > 0 {
		w.text(",")
	}
	w.value(key)
	w.text(":")
	w.value(v)
}

// field writes one field of a struct with its JSON tag. It writes a slice entry by entry, and [] for
// an empty one. It treats omitempty and omitzero alike.
func (w *writer) field(tag string, v reflect.Value) {
	key, option, _ := strings.Cut(tag, ",")
	isSlice := v.Kind() == reflect.Slice
	if option != "" && (v.IsZero() || isSlice && v.Len() == 0) {
		return
	}
	w.text(",\"" + key + "\":")
	if !isSlice {
		w.value(v.Interface())
		return
	}
	w.text("[")
	for i := range v.Len() {
		if i > 0 {
			w.text(",")
		}
		w.value(v.Index(i).Interface())
	}
	w.text("]")
}

package debug

import (
	"encoding/json"
	"fmt"
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

// writeManager writes a dump as one JSON object, key by key, so that the text of a large dump
// is never in memory as a whole. NodeName, NsMap, PodMap and SetMap are the predecessor's keys. The other keys
// are the fields of state.Dump.
func writeManager(out io.Writer, d state.Dump) error {
	namespaces, pods, sets := map[string]namespaceEntry{}, map[string]podEntry{}, map[string]string{}
	for _, ns := range d.Namespaces {
		namespaces[ns.Name] = namespaceEntry{ns.Labels}
	}
	for _, p := range d.Pods {
		namespace, name, _ := strings.Cut(p.Pod, "/")
		pods[p.Pod] = podEntry{Name: name, Namespace: namespace, PodIP: p.Addr, Labels: p.Labels}
	}
	for _, s := range d.Sets {
		sets[s.ID] = s.Name
	}
	w := &objectWriter{out: out}
	w.key("{", "NodeName", d.Node)
	w.key(",", "NsMap", namespaces)
	w.key(",", "PodMap", pods)
	w.key(",", "SetMap", sets)
	fields := reflect.ValueOf(d)
	for i := range fields.NumField() {
		key, option, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
		value := fields.Field(i)
		switch empty := value.Kind() == reflect.Slice && value.Len() == 0; {
		case option != "" && (empty || value.IsZero()): // omitempty and omitzero alike
		case empty:
			w.key(",", key, []any{})
		default:
			w.key(",", key, value.Interface())
		}
	}
	w.write([]byte("}\n"))
	return w.err
}

// objectWriter writes a JSON object and keeps the first error.
type objectWriter struct {
	out io.Writer
	err error
}

// key writes one key with its value, after a bracket or comma.
func (w *objectWriter) key(before, key string, value any) {
	if w.err != nil {
		return
	}
	text, err := json.Marshal(value)
	w.err = err
	w.write(fmt.Appendf(nil, "%s%q:", before, key))
	w.write(text)
}

func (w *objectWriter) write(text []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(text)
	}
}

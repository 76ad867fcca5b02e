package controllers

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/desired"
)

// place is where a map, slice or string is in memory.
func place(v any) uintptr {
	if s, ok := v.(string); ok {
		return uintptr(unsafe.Pointer(unsafe.StringData(s)))
	}
	return reflect.ValueOf(v).Pointer()
}

// decodedPod is a pod whose every part is its own, as a decoder makes it.
func decodedPod(name, app, unique string) *desired.Pod {
	own := func(s string) string { return string([]byte(s)) }
	p := &desired.Pod{Namespace: own("x"), Name: own(name), UID: types.UID(own(name)), Labels: map[string]string{own("app"): own(app)},
		Ports: []desired.PodPort{{Name: own("http"), Protocol: "TCP", Number: 80}}}
	if unique != "" {
		p.Labels[own("pod")] = own(unique)
	}
	return p
}

func TestPodsShareWhatIsEqual(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection may forget a text
	in := newInterner()
	a, b, other, unique := decodedPod("a", "web", ""), decodedPod("b", "web", ""), decodedPod("c", "db", ""), decodedPod("d", "web", "d")
	for _, p := range []*desired.Pod{a, b, other, unique} {
		in.pod(p)
	}
	require.Equal(t, place(a.Labels), place(b.Labels))
	require.Equal(t, place(a.Ports), place(b.Ports))
	require.Equal(t, place(a.Namespace), place(other.Namespace))
	require.Equal(t, map[string]string{"app": "db"}, other.Labels)
	require.NotEqual(t, place(a.Labels), place(other.Labels))
	require.Equal(t, map[string]string{"app": "web", "pod": "d"}, unique.Labels)
	require.Equal(t, place(a.Labels["app"]), place(unique.Labels["app"]), "a label of its own, and one that others have")
	require.Equal(t, []desired.PodPort{{Name: "http", Protocol: "TCP", Number: 80}}, unique.Ports)
}

// Labels that are unique to their pods use no memory without a bound, and what all pods share is
// remembered again afterwards.
func TestInternerForgets(t *testing.T) {
	in := newInterner()
	for i := range 100_000 {
		p := decodedPod("b", fmt.Sprint("app", i), fmt.Sprint("unique", i))
		p.Size = 100
		in.pod(p)
		require.LessOrEqual(t, len(in.pods), internedBytes/100)
		require.LessOrEqual(t, in.bytes, internedBytes)
	}
	a, b := decodedPod("a", "web", ""), decodedPod("b", "web", "")
	in.pod(a)
	in.pod(b)
	require.Equal(t, place(a.Labels), place(b.Labels))
}

package controllers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/test/switchboard"
)

// encodedList is a PodList as Kubernetes itself encodes it.
func encodedList(t *testing.T, items ...corev1.Pod) []byte {
	t.Helper()
	return encoded(t, &corev1.PodList{TypeMeta: kind("v1", "PodList"), ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more"}, Items: items})
}

// encoded returns an object as Kubernetes itself encodes it in protobuf.
func encoded(t *testing.T, object k8sruntime.Object) []byte {
	t.Helper()
	scheme := k8sruntime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, networkingv1.AddToScheme(scheme))
	var out bytes.Buffer
	require.NoError(t, protobuf.NewSerializer(scheme, scheme).Encode(object, &out))
	return out.Bytes()
}

func readPods(r io.Reader) ([]corev1.Pod, metav1.ListMeta, error) {
	var pods []corev1.Pod
	meta, err := podItems.each(bufio.NewReader(r), func(item k8sruntime.Object) error {
		pod, ok := item.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("unexpected %T in a list of pods", item)
		}
		pods = append(pods, *pod)
		return nil
	})
	return pods, meta, err
}

func TestEachPod(t *testing.T) {
	full := *fullPod()
	for _, items := range [][]corev1.Pod{nil, {full}, {full, *newPod("a", "10.0.0.2"), {}}} {
		got, meta, err := readPods(iotest.OneByteReader(bytes.NewReader(encodedList(t, items...))))
		require.NoError(t, err)
		require.Equal(t, metav1.ListMeta{ResourceVersion: "7", Continue: "more"}, meta)
		require.Len(t, got, len(items))
		for i := range items {
			want, is := PodFrom(&items[i], "n1"), PodFrom(&got[i], "n1")
			require.True(t, is.Same(&want) && is.Key() == want.Key(), "%+v\n%+v", want, is)
		}
	}
}

// A list that was cut off anywhere is an error: pods that are left out of a list
// would count as deleted.
func TestEachPodToTheEnd(t *testing.T) {
	whole := encodedList(t, *newPod("a", "10.0.0.1"), *newPod("b", "10.0.0.2"))
	pods, _, err := readPods(bytes.NewReader(whole))
	require.NoError(t, err)
	require.Len(t, pods, 2)
	end := bytes.LastIndex(whole, []byte("10.0.0.2")) // what follows the list itself says nothing
	for n := range end {
		_, _, err := readPods(bytes.NewReader(whole[:n]))
		require.Error(t, err, n)
	}
	for n := range whole {
		broken := bytes.Clone(whole)
		broken[n] ^= 0x55
		_, _, _ = readPods(bytes.NewReader(broken)) // whatever it says, it comes back
	}
	_, _, err = readPods(bytes.NewReader([]byte("k8s\x00\x0a\x09\x12\x07PodList\x12\x08\x12\xff\xff\xff\xff\xff\xff\x01")))
	require.EqualError(t, err, "an object of 8796093022207 bytes")
}

func TestEachPodStops(t *testing.T) {
	enough := errors.New("enough")
	for contentType, list := range map[string][]byte{
		k8sruntime.ContentTypeProtobuf: encodedList(t, *newPod("a", "")),
		k8sruntime.ContentTypeJSON:     []byte(`{"apiVersion": "v1", "kind": "PodList", "items": [{}]}`),
	} {
		_, err := newInformer(KindPod, nil, sourceOf(t, &oneAnswer{contentType, list}, "n1").Pods, klog.Logger{}).page(t.Context(), metav1.ListOptions{}, func(k8sruntime.Object) error { return enough })
		require.ErrorIs(t, err, enough)
	}
}

// TestFirstListOverTheWire: over the wire the pods are what they are, and those of a workload share
// their labels. The agent asks for its own node alone, and for all nodes if it has no name.
func TestFirstListOverTheWire(t *testing.T) {
	for node, selector := range map[string]string{"node-000": "metadata.name=node-000", "": ""} {
		f := fleet{pods: 300, workloads: 20}
		var mu sync.Mutex // guards following
		asked := map[string]string{}
		web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			asked[r.URL.Path] = r.URL.Query().Get("fieldSelector")
			mu.Unlock()
			server{fleet: f}.ServeHTTP(w, r)
		})
		r := &recorder{}
		cfg := Config{Source: sourceOf(t, web, node), Applier: r, Node: node}
		applied := firstApplied(&cfg)
		c := New(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Run(ctx)
		}()
		<-applied
		require.NoError(t, c.Ready())
		cancel()
		<-done

		require.Len(t, r.calls(), 1)
		got := r.calls()[0].pods
		require.Len(t, got, f.pods)
		places := map[uintptr]bool{}
		template := f.template()
		for i := range f.pods {
			want := PodFrom(f.pod(template, i), node)
			is := got[want.Key()]
			require.True(t, is.Same(&want), "%+v\n%+v", is, want)
			places[place(is.Labels)] = true
		}
		require.Len(t, places, f.workloads)
		mu.Lock()
		defer mu.Unlock()
		maps.DeleteFunc(asked, func(path, _ string) bool { return path == "/apis" || strings.HasPrefix(path, groupPath) })
		require.Equal(t, map[string]string{
			"/api/v1/pods": "", "/api/v1/namespaces": "", "/apis/networking.k8s.io/v1/networkpolicies": "", "/api/v1/nodes": selector,
		}, asked)
	}
}

// forgetful is an API server that has forgotten what was before: its first watch of
// pods ends with that, and so does the list that asks for what is no older. Then
// one pod is gone.
type forgetful struct {
	server
	watches, lists *atomic.Int32
	gone           []byte // what an API server says of a history that was compacted
}

func (s forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	watches := query.Get("watch") != ""
	switch {
	case r.URL.Path != "/api/v1/pods":
	case watches && s.watches.Add(1) == 1:
		w.Header().Set("Content-Type", k8sruntime.ContentTypeProtobuf+";stream=watch")
		frame(w, watch.Error, s.gone)
		return
	case !watches && query.Get("resourceVersion") == "1000000":
		w.Header().Set("Content-Type", k8sruntime.ContentTypeProtobuf)
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write(s.gone)
		return
	case !watches && s.lists.Add(1) > 1:
		s.fleet.pods--
	}
	s.server.ServeHTTP(w, r)
}

// An error of a list stays what it is: a reflector that is told of a history that is
// lost asks for any list, and what went meanwhile is deleted.
func TestHistoryIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, listener := fleet{pods: 3, workloads: 1}, switchboard.New()
		gone := &metav1.Status{TypeMeta: kind("v1", "Status"), Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired}
		web := &http.Server{Handler: forgetful{server{fleet: f}, &atomic.Int32{}, &atomic.Int32{}, encoded(t, gone)}}
		go func() { _ = web.Serve(listener) }() // until Close
		defer web.Close()
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.Dial(ctx) }
		source, err := ClusterSource(&rest.Config{Host: "http://api", Dial: dial}, "node-000")
		require.NoError(t, err)
		r := &recorder{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		applied := 0
		New(Config{Source: source, Applier: r, Node: "node-000", Logger: klog.Logger{}, OnApplied: func(Applied) {
			if applied++; applied == 2 {
				cancel()
			}
		}}).Run(ctx)

		calls := r.calls()
		require.Len(t, calls[0].pods, f.pods)
		last := f.pod(f.template(), f.pods-1)
		require.Equal(t, map[desired.PodKey]*desired.Pod{{Namespace: last.Namespace, Name: last.Name}: nil}, calls[1].pods)
	})
}

// paged is a source that lists in pages of one pod.
type paged struct {
	*apiServer
	pods []*corev1.Pod
}

func (p paged) ListWithContext(context.Context, metav1.ListOptions) (k8sruntime.Object, error) {
	panic("the list is never wanted whole")
}

func (p paged) WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return p.Watch(metav1.ListOptions{})
}

func (p paged) ListEach(_ context.Context, options metav1.ListOptions, yield func(k8sruntime.Object) error) (metav1.ListMeta, error) {
	i := len(options.Continue)
	meta := metav1.ListMeta{ResourceVersion: "7"}
	if i+1 < len(p.pods) {
		meta.Continue = options.Continue + "."
	}
	return meta, yield(p.pods[i])
}

func TestFirstListInPages(t *testing.T) {
	cl, r := newCluster(), &recorder{}
	source := cl.source()
	source.Pods = paged{cl.pods, []*corev1.Pod{newPod("a", "10.0.0.1"), newPod("b", "10.0.0.2"), newPod("c", "10.0.0.3")}}
	run(t, Config{Source: source, Applier: r}, func(t *testing.T, _ *Controller) {
		calls := r.calls()
		require.Len(t, calls, 1)
		require.Len(t, calls[0].pods, 3)
		for _, name := range []string{"a", "b", "c"} {
			require.NotNil(t, calls[0].pods[desired.PodKey{Namespace: "x", Name: name}])
		}
	})
}

// oneAnswer is an API server that answers every request alike.
type oneAnswer struct {
	contentType string
	body        []byte
}

func (a *oneAnswer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", a.contentType)
	_, _ = w.Write(a.body)
}

// TestCutOffJSONLists checks that a list of JSON that ends before its last brace is an error,
// wherever that is. What came until then is no whole list.
func TestCutOffJSONLists(t *testing.T) {
	answer := &oneAnswer{contentType: k8sruntime.ContentTypeJSON}
	source := sourceOf(t, answer, "n1")
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
			answer.body = []byte(whole)
			objects, err := read()
			require.NoError(t, err, kind)
			require.Equal(t, strings.Count(whole, "name"), objects)
			for n := range whole {
				answer.body = []byte(whole[:n])
				_, err := read()
				require.Error(t, err, "%s", answer.body)
			}
		}
	}
}

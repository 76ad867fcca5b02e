package controllers

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/desired"
)

// Over the wire, streamed and in one message, the pods are what they are, and
// those of a workload share their labels.
func TestFirstListOverTheWire(t *testing.T) {
	f := fleet{pods: 300, workloads: 20}
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprint("streams=", streams), func(t *testing.T) {
			web := httptest.NewServer(server{fleet: f, streams: streams})
			defer web.Close()
			defer web.CloseClientConnections()
			source, err := ClusterSource(&rest.Config{Host: web.URL}, "node-000")
			require.NoError(t, err)
			r := &recorder{}
			c := New(Config{Source: source, Applier: r, Node: "node-000", Logger: klog.Logger{}})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.Run(ctx)
			}()
			<-c.Settled()
			cancel()
			<-done

			got := r.calls()[0].pods
			require.Len(t, got, f.pods)
			places := map[uintptr]bool{}
			template := f.template()
			for i := range f.pods {
				want := PodFrom(f.pod(template, i), "node-000")
				is := got[want.Key()]
				require.True(t, is.Same(&want), "%+v\n%+v", is, want)
				places[place(is.Labels)] = true
			}
			require.Len(t, places, f.workloads)
		})
	}
}

// forgetful is an API server that has forgotten what was before: its first watch of
// pods ends with that, and so does the list that asks for what is no older. Then
// one pod is gone.
type forgetful struct {
	server
	watches, lists *atomic.Int32
}

func (s forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	watches, whole := query.Get("watch") != "", query.Get("sendInitialEvents") != ""
	switch {
	case r.URL.Path != "/api/v1/pods" || whole:
	case watches && s.watches.Add(1) == 1:
		w.Header().Set("Content-Type", k8sruntime.ContentTypeProtobuf+";stream=watch")
		frame(w, watch.Error, encodedGone())
		return
	case !watches && query.Get("resourceVersion") == "1000000":
		w.Header().Set("Content-Type", k8sruntime.ContentTypeProtobuf)
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write(encodedGone())
		return
	case !watches && s.lists.Add(1) > 1:
		s.fleet.pods--
	}
	s.server.ServeHTTP(w, r)
}

// encodedGone is what an API server says of a history that was compacted.
func encodedGone() []byte {
	gone := &metav1.Status{TypeMeta: kind("v1", "Status"), Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired}
	scheme := k8sruntime.NewScheme()
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme, scheme).Encode(gone, &out); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// An error of a list stays what it is: a reflector that is told of a history that is
// lost asks for any list, and what went meanwhile is deleted.
func TestHistoryIsForgotten(t *testing.T) {
	f := fleet{pods: 3, workloads: 1}
	web := httptest.NewServer(forgetful{server{fleet: f}, &atomic.Int32{}, &atomic.Int32{}})
	defer web.Close()
	defer web.CloseClientConnections()
	source, err := ClusterSource(&rest.Config{Host: web.URL}, "node-000")
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
}

package controllers

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

func TestClusterSink(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, eventsv1.AddToScheme(scheme))
	var got []eventsv1.Event
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/apis/events.k8s.io/v1/namespaces/x/events" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var e eventsv1.Event
		_, _, err = serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(body, nil, &e)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		e.TypeMeta = metav1.TypeMeta{}
		got = append(got, e)
		w.Header().Set("Content-Type", "application/json")
		if len(got) == 1 {
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(e)
			return
		}
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Reason: metav1.StatusReasonAlreadyExists, Code: http.StatusConflict,
		})
	}))
	defer server.Close()
	defer server.CloseClientConnections()
	sink, err := ClusterSink(&rest.Config{Host: server.URL})
	require.NoError(t, err)

	e := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "e"}, Reason: "IPv6Peer", Note: "why"}
	require.NoError(t, sink.Create(t.Context(), e))
	err = sink.Create(t.Context(), e)
	require.True(t, apierrors.IsAlreadyExists(err), err)
	require.True(t, settled(err))
	require.Len(t, got, 2)
	require.Empty(t, cmp.Diff(*e, got[0]))
}

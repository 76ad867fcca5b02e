package controllers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Sink takes Events. Its errors are those of client-go's REST client.
type Sink interface {
	Create(ctx context.Context, event *eventsv1.Event) error
}

// clusterSink is the Sink of an API server. The recorder of client-go does not fit: it links
// all of client-go/kubernetes, merges two Events with different notes, and does not say
// which ones it lost.
type clusterSink struct{ client *rest.RESTClient }

// ClusterSink writes Events of the group events.k8s.io to a cluster. It only
// creates.
func ClusterSink(cfg *rest.Config) (Sink, error) {
	client, err := Client(cfg, eventsv1.SchemeGroupVersion, eventsv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return clusterSink{client}, nil
}

// Create implements Sink.
func (c clusterSink) Create(ctx context.Context, event *eventsv1.Event) error {
	return c.client.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
}

// settled reports whether there is no use in sending an Event again: the server
// has it, from us or from another node, or will never take it.
func settled(err error) bool {
	return err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

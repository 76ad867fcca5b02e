package controllers

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/policy"
)

const (
	reportingController = "winnpm"
	action              = "Program"

	// The limits of the API server, in bytes.
	maxNote     = 1024
	maxInstance = 128
	maxName     = 253
)

// event returns the Event of a fact. Its name is derived from its content. For a fault of the
// policy itself, the name is the same on every node and after a restart, so the server takes the
// first such Event and rejects the others. For a problem of this node, the node's name is part of
// what the Event's name is derived from.
func (r *Recorder) event(f *fact, now time.Time) *eventsv1.Event {
	where, origin, kind := "on node "+r.cfg.Node, fmt.Sprint(r.cfg.Node, f.since.UnixNano()), corev1.EventTypeWarning
	if np, ok := r.cfg.Policy(f.policy); ok && f.everywhere {
		origin = fmt.Sprint(np.GetGeneration())
	}
	if f.reason == reasonProgrammed {
		kind = corev1.EventTypeNormal
	} else if f.everywhere {
		where += " and every other Windows node"
	}
	what := f.text
	if f.pods {
		what = ""
	}
	regarding := corev1.ObjectReference{
		APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy",
		Namespace: f.policy.Namespace, Name: f.policy.Name, UID: f.uid,
	}
	namespace := f.policy.Namespace
	if namespace == "" {
		regarding.APIVersion, regarding.Kind = v1alpha2.GroupVersion.String(), "ClusterNetworkPolicy"
		namespace = metav1.NamespaceDefault // the API requires it for Events on objects without a namespace
	}
	id := sha256.Sum256(fmt.Appendf(nil, "%q", []string{string(f.uid), origin, string(f.reason), what}))
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      eventName(f.policy.Name, fmt.Sprintf("%x", id[:8])),
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: reportingController,
		ReportingInstance:   truncate(r.cfg.Node, maxInstance),
		Action:              action,
		Reason:              string(f.reason),
		Type:                kind,
		Note:                truncate(cli.Printable(where+": "+f.text), maxNote),
		Regarding:           regarding,
		Related:             &corev1.ObjectReference{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: r.cfg.Node},
	}
}

// Sink creates Events. It returns the errors of client-go's REST client.
type Sink interface {
	Create(ctx context.Context, event *eventsv1.Event) error
}

// clusterSink is the Sink of an API server. client-go's recorder is not used: it merges Events that
// differ only in their notes, and does not report which Events it lost.
type clusterSink struct{ client *rest.RESTClient }

// ClusterSink returns a Sink that creates Events of the group events.k8s.io in a cluster.
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

// settled reports whether sending an Event again is useless: the server has it, from this node or
// another one, or will never accept it.
func settled(err error) bool {
	return err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// policyName returns the name of a policy in logs.
func policyName(key policy.Key) string {
	if key.Namespace == "" {
		return "ClusterNetworkPolicy/" + key.Name
	}
	return key.String()
}

// eventName returns the name of the object, as is usual, with a dot and a unique id. The part
// before the dot must not end in a dot.
func eventName(object, id string) string {
	return strings.TrimRight(truncate(object, maxName-1-len(id)), ".-") + "." + id
}

// truncate shortens a text to at most that many bytes, without splitting a rune.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

package controllers

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/policy"
)

const (
	reportingController = "winnpm"
	action              = "Program"

	// What the server takes at most, in bytes.
	maxNote     = 1024
	maxInstance = 128
	maxName     = 253
)

// event returns the Event of a fact. Its name is the same for everybody who says the same:
// this process, where this node alone knows the fact, and all processes on all nodes,
// where it follows from the policy as it is written.
func (l *ledger) event(f *fact, now time.Time) *eventsv1.Event {
	s := l.subjects[f.of]
	where, origin, kind := "on node "+l.node, fmt.Sprint(l.node, f.since.UnixNano()), corev1.EventTypeWarning
	switch {
	case f.reason == reasonProgrammed:
		kind = corev1.EventTypeNormal
		if !s.hereOnly {
			origin = fmt.Sprint(s.generation)
		}
	case f.everywhere():
		where, origin = where+" and every other Windows node", fmt.Sprint(s.generation)
	}
	regarding := corev1.ObjectReference{
		APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy",
		Namespace: f.of.Namespace, Name: f.of.Name, UID: s.uid,
	}
	namespace := f.of.Namespace
	if namespace == "" {
		regarding.APIVersion, regarding.Kind = v1alpha2.GroupVersion.String(), "ClusterNetworkPolicy"
		namespace = metav1.NamespaceDefault // where the API wants Events on what has no namespace
	}
	id := sha256.Sum256(fmt.Appendf(nil, "%q", []string{string(s.uid), origin, string(f.reason), f.what}))
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      eventName(f.of.Name, fmt.Sprintf("%x", id[:8])),
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: reportingController,
		ReportingInstance:   cut(l.node, maxInstance),
		Action:              action,
		Reason:              string(f.reason),
		Type:                kind,
		Note:                cut(cli.Printable(where+": "+f.text), maxNote),
		Regarding:           regarding,
		Related:             &corev1.ObjectReference{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: l.node},
	}
}

// policyName returns what a log calls a policy.
func policyName(key policy.Key) string {
	if key.Namespace == "" {
		return "ClusterNetworkPolicy/" + key.Name
	}
	return key.String()
}

// eventName is that of the object, as is usual, and what makes it unique. A name
// must not end in a dot before the dot that is put there.
func eventName(object, id string) string {
	return strings.TrimRight(cut(object, maxName-1-len(id)), ".-") + "." + id
}

// cut shortens a text to a number of bytes, between two runes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

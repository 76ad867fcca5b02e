package events

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/printable"
)

// ReasonStartedOpen is the reason of Events on pods that started without their rules.
const ReasonStartedOpen = "StartedWithoutPolicies"

// mostStarts is how many pods wait for their Event at most. What comes then is in the log
// and in the metrics only.
const mostStarts = 64

// OpenStart is a pod that its CNI let go before it had its rules.
type OpenStart struct {
	Namespace, Name string
	UID             types.UID
	Why             string // for people
}

// PodStarts sends Events on pods while it runs: one for each, once. One that the server does
// not take is lost. Whoever has pods start again and again gets one Event a second.
type PodStarts struct {
	sink   Sink
	node   string
	logger klog.Logger
	starts chan OpenStart
}

// NewPodStarts returns PodStarts that Run starts.
func NewPodStarts(sink Sink, node string, logger klog.Logger) *PodStarts {
	return &PodStarts{sink: sink, node: node, logger: logger, starts: make(chan OpenStart, mostStarts)}
}

// Tell has an Event sent. It never waits.
func (s *PodStarts) Tell(start OpenStart) {
	select {
	case s.starts <- start:
	default:
	}
}

// Run sends Events until ctx is done.
func (s *PodStarts) Run(ctx context.Context) {
	limiter := flowcontrol.NewTokenBucketRateLimiter(perSecond, burst)
	defer limiter.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case start := <-s.starts:
			if limiter.Wait(ctx) != nil {
				return
			}
			s.send(ctx, start)
		}
	}
}

func (s *PodStarts) send(ctx context.Context, start OpenStart) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := s.sink.Create(ctx, s.event(start, time.Now())); !settled(err) && ctx.Err() == nil {
		s.logger.Info("sending an Event failed", "pod", start.Namespace+"/"+start.Name, "reason", ReasonStartedOpen, "err", err.Error())
	}
}

func (s *PodStarts) event(start OpenStart, now time.Time) *eventsv1.Event {
	id := sha256.Sum256(fmt.Appendf(nil, "%q", []string{string(start.UID), ReasonStartedOpen, fmt.Sprint(now.UnixNano())}))
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: start.Namespace, Name: eventName(start.Name, fmt.Sprintf("%x", id[:8]))},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: reportingController,
		ReportingInstance:   cut(s.node, maxInstance),
		Action:              action,
		Reason:              ReasonStartedOpen,
		Type:                corev1.EventTypeWarning,
		Note:                cut(printable.Line("on node "+s.node+": the pod started before its policies were in place: "+start.Why), maxNote),
		Regarding: corev1.ObjectReference{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod", Namespace: start.Namespace, Name: start.Name, UID: start.UID,
		},
		Related: &corev1.ObjectReference{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: s.node},
	}
}

package controllers

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// mayLack is a source of a kind of objects that the API server may not have. Its lists
// fail with ErrNoKind then.
type mayLack interface {
	cache.ListerWatcherWithContext
	// StillAbsent reports whether the server still says that it has no such kind. It is
	// one cheap request.
	StillAbsent(ctx context.Context) bool
}

// askAgain is how long after the last answer an API server that had no such kind is asked
// again; it is up to a fifth more, so that the agents of many nodes do not ask at once.
const askAgain = 30 * time.Second

// optional makes of a kind that the server does not have one without objects. Then it asks
// now and then whether the kind has come. Nothing but the server's own word that it has no
// such kind counts as that: after any other error the store keeps what it has.
type optional struct {
	mayLack
	logger klog.Logger

	mu     sync.Mutex // guards following
	listed bool       // once
	absent bool       // as the last list said
}

// ListWithContext implements cache.ListerWithContext.
func (o *optional) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := o.mayLack.ListWithContext(ctx, options)
	if errors.Is(err, ErrNoKind) {
		o.note(true)
		return &keptList{}, nil
	}
	if err == nil {
		o.note(false)
	}
	return list, err
}

// note takes what a list said, and logs it when it is new.
func (o *optional) note(absent bool) {
	o.mu.Lock()
	was, first := o.absent, !o.listed
	o.absent, o.listed = absent, true
	o.mu.Unlock()
	switch {
	case absent && first:
		o.logger.Info("the API server has no ClusterNetworkPolicies, asking it now and then", "interval", askAgain)
	case absent && !was:
		o.logger.Info("the API server has no ClusterNetworkPolicies any more, all that were there are gone")
	case !absent && was:
		o.logger.Info("the API server has ClusterNetworkPolicies now")
	}
}

func (o *optional) isAbsent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.absent
}

// WatchWithContext implements cache.WatcherWithContext. The watch of a kind that the server
// does not have ends as soon as the server says anything else, and the reflector lists.
func (o *optional) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if o.isAbsent() {
		return newAbsence(ctx, o.StillAbsent), nil
	}
	w, err := o.mayLack.WatchWithContext(ctx, options)
	if apierrors.IsNotFound(err) { // a list finds out what that means
		return endedWatch(), nil
	}
	return w, err
}

// listAgain is the event after which a reflector lists.
func listAgain() watch.Event {
	gone := apierrors.NewResourceExpired("the kind of objects came or went").Status()
	return watch.Event{Type: watch.Error, Object: &gone}
}

// endedWatch returns a watch that has the reflector list.
func endedWatch() watch.Interface {
	w := watch.NewFakeWithChanSize(1, false)
	w.Action(listAgain().Type, listAgain().Object)
	return w
}

// absence is the watch of a kind that the server does not have.
type absence struct {
	events chan watch.Event
	stop   context.CancelFunc
}

// newAbsence returns a watch that ends with ctx, when it is stopped, and after the server
// said that it may have the kind. As long as the server says that it does not there is a
// bookmark for each answer, so that whoever wants to know how old our knowledge is hears.
func newAbsence(ctx context.Context, still func(context.Context) bool) *absence {
	ctx, stop := context.WithCancel(ctx)
	a := &absence{events: make(chan watch.Event), stop: stop}
	go func() {
		defer close(a.events)
		for {
			event := watch.Event{Type: watch.Bookmark, Object: &metav1.PartialObjectMetadata{}}
			wait := time.NewTimer(askAgain + rand.N(askAgain/5))
			select {
			case <-ctx.Done():
				wait.Stop()
				return
			case <-wait.C:
			}
			asking, done := context.WithTimeout(ctx, askAgain)
			if !still(asking) {
				event = listAgain()
			}
			done()
			select {
			case <-ctx.Done():
				return
			case a.events <- event:
			}
			if event.Type == watch.Error {
				return
			}
		}
	}()
	return a
}

// ResultChan implements watch.Interface.
func (a *absence) ResultChan() <-chan watch.Event { return a.events }

// Stop implements watch.Interface.
func (a *absence) Stop() { a.stop() }

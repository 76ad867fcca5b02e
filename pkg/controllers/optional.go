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

// mayLack is a source of a kind of objects that the API server may not have. Without the kind
// its lists fail with ErrNoKind.
type mayLack interface {
	cache.ListerWatcherWithContext
	// StillAbsent asks the API server, in one cheap request, whether the kind is still
	// missing.
	StillAbsent(ctx context.Context) bool
}

// askAgain is the pause between two requests for a missing kind. Up to a fifth is added, so
// that the agents of many nodes do not ask at the same moment.
const askAgain = 30 * time.Second

// optional lists a missing kind as one without objects, and asks now and then whether the API
// server has the kind. Only ErrNoKind makes a kind missing: after any other error the store
// keeps its objects.
type optional struct {
	mayLack
	logger klog.Logger

	mu     sync.Mutex // guards following
	listed bool       // a list has succeeded or failed with ErrNoKind
	absent bool       // the last of these failed
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

// note records whether a list found the kind missing, and logs a change.
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

// WatchWithContext implements cache.WatcherWithContext. The watch of a missing kind ends when
// the API server no longer says that the kind is missing. Then the reflector lists.
func (o *optional) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if o.isAbsent() {
		return newAbsence(ctx, o.StillAbsent), nil
	}
	w, err := o.mayLack.WatchWithContext(ctx, options)
	if apierrors.IsNotFound(err) { // ListWithContext tells whether the kind is missing
		return endedWatch(), nil
	}
	return w, err
}

// listAgain returns an event that makes a reflector list.
func listAgain() watch.Event {
	gone := apierrors.NewResourceExpired("the kind of objects came or went").Status()
	return watch.Event{Type: watch.Error, Object: &gone}
}

// endedWatch returns a watch that makes the reflector list.
func endedWatch() watch.Interface {
	w := watch.NewFakeWithChanSize(1, false)
	w.Action(listAgain().Type, listAgain().Object)
	return w
}

// absence is the watch of a missing kind.
type absence struct {
	events chan watch.Event
	stop   context.CancelFunc
}

// newAbsence returns a watch that ends with ctx, when it is stopped, and when still returns
// false. Until then it sends a bookmark after each call of still, which tells the reader that
// the API server has answered.
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

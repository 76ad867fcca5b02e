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
		return o.absence(ctx), nil
	}
	w, err := o.mayLack.WatchWithContext(ctx, options)
	if apierrors.IsNotFound(err) { // ListWithContext tells whether the kind is missing
		ended := watch.NewRaceFreeFake()
		ended.Action(watch.Error, listAgain())
		return ended, nil
	}
	return w, err
}

// listAgain returns the error of a watch that makes a reflector list.
func listAgain() *metav1.Status {
	gone := apierrors.NewResourceExpired("everything is listed again").Status()
	return &gone
}

// absence returns the watch of a missing kind. It ends when StillAbsent returns false. Until then
// it sends a bookmark after each call, which tells the reader that the API server has answered.
func (o *optional) absence(ctx context.Context) watch.Interface {
	w := watch.NewRaceFreeFake()
	var ask func()
	next := func() { time.AfterFunc(askAgain+rand.N(askAgain/5), ask) }
	ask = func() {
		if ctx.Err() != nil || w.IsStopped() {
			return
		}
		asking, done := context.WithTimeout(ctx, askAgain)
		defer done()
		if !o.StillAbsent(asking) {
			w.Action(watch.Error, listAgain())
			return
		}
		w.Action(watch.Bookmark, &metav1.PartialObjectMetadata{})
		next()
	}
	next()
	return w
}

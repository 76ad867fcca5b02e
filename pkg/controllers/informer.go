package controllers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/backoff"
)

// ErrNoKind is the error of a list when the API server says that it does not have the kind of
// objects, as the CRD of ClusterNetworkPolicies is missing. No other error says so.
var ErrNoKind = errors.New("the API server has no such kind of objects")

const (
	// askAgain is the pause between two lists of a missing kind. Up to a fifth is added, so
	// that the agents of many nodes do not ask at the same moment.
	askAgain = 30 * time.Second
	// relistPause is the least time between two lists that are made because there is room
	// again for texts that were dropped. A tenant can cause such lists, and must not decide
	// how often there is one.
	relistPause = time.Minute
	// silentAfter is how long the API server may send nothing about a kind of objects before
	// the agent becomes not ready.
	silentAfter = 5 * time.Minute
	// maxWatch is the longest timeout of a watch. The informer chooses each timeout at random
	// between half of it and all of it, so that the agents of many nodes do not reopen their
	// watches at the same time. It is shorter than silentAfter: if the server sends no bookmarks
	// and the objects do not change, the end of the watch is the only sign that the server is
	// alive.
	maxWatch = 240 * time.Second
	// watchGrace is the time after its timeout at which the informer ends a watch itself.
	watchGrace = time.Minute
	// shortWatch is how long a watch without events lasts at least. A shorter one counts as an
	// error, as nothing else would slow down the next one.
	shortWatch = time.Second
)

// itemLister is a source that lists objects without ever having the whole list.
type itemLister interface {
	// ListEach passes on every object of a list, in the order of the list.
	ListEach(ctx context.Context, options metav1.ListOptions, yield func(runtime.Object) error) (metav1.ListMeta, error)
}

// informer keeps a store equal to one source. It lists all objects, and watches them from the
// version of the list on. It lists again when the watch cannot go on, after a pause that grows with
// each failure. A kind that the API server does not have is one without objects. After any other
// error the store keeps its objects.
type informer struct {
	kind   Kind
	source cache.ListerWatcherWithContext
	lists  itemLister // of source; nil if it lists whole lists only
	store  objects
	logger klog.Logger
	synced chan struct{} // closed when the first list is in the store and was enqueued
	first  func()        // called when synced was closed; may be nil

	// Only run uses the fields below.
	listed   bool   // a watch can go on from version
	version  string // of the last list or event; "" lists the newest state
	tries    int    // failures, one soon after the other
	failed   time.Time
	relisted time.Time // when it last listed because the store wanted it
	absent   bool      // the last list failed with ErrNoKind

	mu    sync.Mutex // guards the fields below
	err   error      // of the last request. A watch that the server ends is no error
	heard time.Time  // when the server last said something of the kind; at first of the start
}

// newInformer returns an informer that is not running yet.
func newInformer(kind Kind, s objects, source cache.ListerWatcher, logger klog.Logger) *informer {
	lists, _ := source.(itemLister)
	return &informer{
		kind: kind, source: cache.ToListerWatcherWithContext(source), lists: lists, store: s, logger: logger,
		synced: make(chan struct{}), heard: time.Now(),
	}
}

// run lists and watches until ctx is done. After a watch a list follows, unless the server ended the
// watch, or could not be asked for one.
func (i *informer) run(ctx context.Context) {
	for ctx.Err() == nil {
		var err error
		if began, from := time.Now(), i.version; i.listed {
			err = i.watch(ctx)
			i.listed = err == nil || utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)
			if err == nil && i.version == from && time.Since(began) < shortWatch {
				err = errors.New("the watch ended at once")
			}
		} else {
			err = i.list(ctx)
			i.listed = err == nil
		}
		if err != nil && ctx.Err() == nil {
			i.rest(ctx, err)
		}
	}
}

// rest waits after an error, and logs it. The pauses are 1, 2, 4 … 30 s, and up to as much again at
// random. They begin anew after some time without a failure.
func (i *informer) rest(ctx context.Context, err error) {
	var pause time.Duration
	switch {
	case errors.Is(err, ErrNoKind):
		pause = askAgain + rand.N(askAgain/5)
	case errors.Is(err, errRoom): // no failure: the watch is to go on soon
		pause = rand.N(time.Second)
	default:
		if time.Since(i.failed) > 3*backoff.Longest {
			i.tries = 0
		}
		i.tries++
		i.failed, pause = time.Now(), backoff.Pause(i.tries)
		pause += rand.N(pause)
		if !errors.Is(err, errNoWatch) && !expired(err) {
			i.logger.Error(err, "reading from the API server failed", "kind", i.kind.String(), "retryAfter", pause)
		}
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}

// list replaces the objects of the store by those of the source.
func (i *informer) list(ctx context.Context) error {
	add, end := i.store.list()
	options := metav1.ListOptions{ResourceVersion: i.version}
	is, err := i.page(ctx, options, add)
	for err == nil && is.Continue != "" {
		is, err = i.page(ctx, metav1.ListOptions{Continue: is.Continue}, add)
	}
	absent := errors.Is(err, ErrNoKind)
	if absent {
		i.note("list", nil)
		_, end = i.store.list() // an empty one
	} else if i.note("list", err); err != nil {
		if expired(err) {
			i.version = ""
		}
		return err
	}
	i.logAbsence(absent)
	i.hear()
	i.version = is.ResourceVersion
	end()
	if !isClosed(i.synced) {
		close(i.synced)
		if i.first != nil {
			i.first()
		}
	}
	return err
}

// logAbsence logs that the kind came or went.
func (i *informer) logAbsence(absent bool) {
	switch { // docs/operations.md has these lines
	case absent && !isClosed(i.synced):
		i.logger.Info("the API server has no ClusterNetworkPolicies, asking it now and then", "interval", askAgain)
	case absent && !i.absent:
		i.logger.Info("the API server has no ClusterNetworkPolicies any more, all that were there are gone")
	case !absent && i.absent:
		i.logger.Info("the API server has ClusterNetworkPolicies now")
	}
	i.absent = absent
}

// isClosed reports whether a channel was closed that nothing is sent to.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// page passes the objects of one list request to add, one by one if the source can do so.
func (i *informer) page(ctx context.Context, options metav1.ListOptions, add func(runtime.Object) error) (metav1.ListMeta, error) {
	if i.lists != nil {
		is, err := i.lists.ListEach(ctx, options, add)
		if !errors.Is(err, errNoProtobuf) {
			return is, err
		}
	}
	list, err := i.source.ListWithContext(ctx, options)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	is, err := meta.ListAccessor(list)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	return metav1.ListMeta{ResourceVersion: is.GetResourceVersion(), Continue: is.GetContinue()}, meta.EachListItem(list, add)
}

var (
	// errRoom ends a watch when the store has room again for texts that were dropped.
	errRoom = errors.New("there is room again for texts that were dropped")
	// errNoWatch is the error of a watch of a kind that the server does not have. The next list
	// tells whether the kind is missing.
	errNoWatch = errors.New("the API server does not find what is to be watched")
)

// watch has the store follow the source. It returns nil if the server ends the watch.
func (i *informer) watch(ctx context.Context) error {
	timeout := maxWatch/2 + rand.N(maxWatch/2)
	seconds := int64(timeout / time.Second)
	ends := time.Now().Add(time.Duration(seconds) * time.Second)
	ctx, cancel := context.WithDeadlineCause(ctx, ends.Add(watchGrace), errOverdue)
	defer cancel()
	w, err := i.source.WatchWithContext(ctx, metav1.ListOptions{
		ResourceVersion: i.version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if apierrors.IsNotFound(err) {
		return errNoWatch
	}
	if i.note("watch", err); err != nil {
		return err
	}
	defer w.Stop()
	for {
		var relist <-chan time.Time
		if i.store.wantsList() {
			relist = time.After(time.Until(i.relisted.Add(relistPause)))
		}
		select {
		case <-relist:
			i.relisted = time.Now()
			return errRoom
		case event, ok := <-w.ResultChan():
			if !ok {
				if time.Until(ends) < shortWatch { // an earlier end may be a broken connection
					i.hear()
				}
				return nil
			}
			if err := i.take(event); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// errOverdue is the error of a watch that the server did not end in time.
var errOverdue = errors.New("the watch is over its time")

// take applies an event of a watch.
func (i *informer) take(event watch.Event) error {
	if event.Type == watch.Error {
		return apierrors.FromObject(event.Object)
	}
	i.hear()
	is, err := meta.Accessor(event.Object)
	if err != nil {
		return err
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		err = i.store.set(event.Object)
	case watch.Deleted:
		err = i.store.remove(event.Object)
	case watch.Bookmark, watch.Error:
	}
	i.version = is.GetResourceVersion()
	return err
}

// expired reports whether the server does not have, or not yet have, the version that it was asked
// for.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// note records how a request ended.
func (i *informer) note(verb string, err error) {
	if errors.Is(err, context.Canceled) {
		return // the agent ended the request itself
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err = err; err != nil {
		i.err = fmt.Errorf("%s %s: %w", verb, i.kind, err)
	}
}

func (i *informer) hear() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.heard = time.Now()
}

// silence returns how long the server has said nothing of the kind.
func (i *informer) silence() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return time.Since(i.heard)
}

// problem returns why the store may be out of date, or nil: the last request failed, or the server
// is silent.
func (i *informer) problem() error {
	silence := i.silence()
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.err != nil:
		return fmt.Errorf("the API server does not answer: %w", i.err)
	case silence >= silentAfter:
		return fmt.Errorf("the API server has said nothing about %s for %v", i.kind, silence.Round(time.Second))
	}
	return nil
}

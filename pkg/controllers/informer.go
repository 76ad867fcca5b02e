package controllers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
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
// objects, because the CRD of ClusterNetworkPolicies is missing. No other error means that.
var ErrNoKind = errors.New("the API server has no such kind of objects")

const (
	// askAgain is the pause between two lists of a missing kind. Up to a fifth is added at random,
	// so that the agents of many nodes do not ask at the same moment.
	askAgain = 30 * time.Second
	// relistPause is the least time between two lists that reload dropped texts of closed objects.
	// A tenant can cause such lists, and must not decide how often there is one.
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
	// watchGrace is the time after its timeout at which the informer ends a watch itself, even if the
	// server has not answered yet or sent a Retry-After of an hour.
	watchGrace = time.Minute
	// listTimeout limits a list. By default the API server itself ends a list after a minute.
	listTimeout = 2 * time.Minute
	// shortWatch is the least time that a watch without events should last. A shorter watch counts
	// as an error, because otherwise nothing would delay the next one.
	shortWatch = time.Second
)

// itemLister is a source that passes on the objects of a list one by one and never holds the whole
// list.
type itemLister interface {
	// ListEach calls yield for every object of a list, in order.
	ListEach(ctx context.Context, options metav1.ListOptions, yield func(runtime.Object) error) (metav1.ListMeta, error)
}

// informer keeps a store equal to one source. It lists all objects, and then watches them from the
// version of the list. If the watch cannot go on, it lists again, after a pause that grows with
// each failure. A kind that the API server does not have counts as empty. After any other error the
// store keeps its objects.
type informer struct {
	kind   Kind
	source cache.ListerWatcherWithContext
	lists  itemLister // source, if it can list objects one by one; otherwise nil
	store  objects
	logger klog.Logger
	synced chan struct{} // closed when the first list is in the store and its keys are in the queue
	first  func()        // called after synced is closed; may be nil

	// Only run uses the fields below.
	listed   bool   // a watch can go on from version
	version  string // of the last list or event; "" lists the newest state
	tries    int    // consecutive failures
	failed   time.Time
	room     bool      // a list would open closed objects of the store
	relisted time.Time // when it last listed because of room
	absent   bool      // the server has no such kind

	heard atomic.Value // the time.Time when the server last sent something about the kind; at first, when the informer was made
	mu    sync.Mutex   // guards err
	err   error        // of the last request; nil if the server ended a watch
}

// newInformer returns an informer that is not running yet.
func newInformer(kind Kind, s objects, source cache.ListerWatcher, logger klog.Logger) *informer {
	lists, _ := source.(itemLister)
	i := &informer{kind: kind, source: cache.ToListerWatcherWithContext(source), lists: lists, store: s, logger: logger, synced: make(chan struct{})}
	i.heard.Store(time.Now())
	return i
}

// run lists and watches until ctx is done. After a watch it lists again, unless the server ended
// the watch normally or refused the connection or the request because of its load.
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
			i.pauseAfter(ctx, err)
		}
	}
}

// pauseAfter logs an error and waits. The pauses are 1, 2, 4 … 30 s, and up to as much again at random.
// They start again at 1 s after some time without a failure.
func (i *informer) pauseAfter(ctx context.Context, err error) {
	var pause time.Duration
	switch {
	case errors.Is(err, ErrNoKind):
		pause = askAgain + rand.N(askAgain/5)
	case errors.Is(err, errRoom): // no failure: list again soon
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

// list replaces the objects of the store with the listed objects.
func (i *informer) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	add, end := i.store.list()
	is, err := i.page(ctx, metav1.ListOptions{ResourceVersion: i.version}, add)
	for err == nil && is.Continue != "" {
		is, err = i.page(ctx, metav1.ListOptions{Continue: is.Continue}, add)
	}
	if errors.Is(err, ErrNoKind) {
		if !i.absent { // docs/operations.md has this line
			i.logger.Info("the API server has no ClusterNetworkPolicies, asking it now and then", "interval", askAgain)
		}
		i.absent = true
		i.recordResult("list", nil)
		_, end = i.store.list() // an empty list
	} else if i.recordResult("list", err); err != nil {
		if expired(err) {
			i.version = ""
		}
		return err
	} else if i.absent {
		i.absent = false
		i.logger.Info("the API server has ClusterNetworkPolicies now")
	}
	i.heard.Store(time.Now())
	i.version, i.room = is.ResourceVersion, false
	end()
	if !isClosed(i.synced) {
		close(i.synced)
		if i.first != nil {
			i.first()
		}
	}
	return err
}

// isClosed reports whether a channel is closed. It must be a channel on which nothing is sent.
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
	// errRoom ends a watch when the store has space again for dropped texts, so that a list reloads
	// them.
	errRoom = errors.New("there is room again for texts that were dropped")
	// errNoWatch is the error of a watch if the server answers "not found". The next list tells
	// whether the kind is missing.
	errNoWatch = errors.New("the API server does not find what is to be watched")
)

// watch applies the events of a watch to the store. It returns nil if the server ends the watch.
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
	if i.recordResult("watch", err); err != nil {
		return err
	}
	defer w.Stop()
	for {
		var relist <-chan time.Time
		if i.room {
			relist = time.After(time.Until(i.relisted.Add(relistPause)))
		}
		select {
		case <-relist:
			i.relisted = time.Now()
			return errRoom
		case event, ok := <-w.ResultChan():
			if !ok {
				return i.watchEnded(ctx, ends)
			}
			if event.Type == watch.Error {
				return apierrors.FromObject(event.Object)
			}
			i.heard.Store(time.Now())
			is, err := meta.Accessor(event.Object)
			if err == nil && event.Type != watch.Bookmark {
				i.room, err = i.store.apply(event)
			}
			if err != nil {
				return err
			}
			i.version = is.GetResourceVersion()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// errOverdue is the error of a watch that the server did not end in time.
var errOverdue = errors.New("the watch is over its time")

// watchEnded returns the error of a watch without further events, whose timeout is at ends.
func (i *informer) watchEnded(ctx context.Context, ends time.Time) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if time.Until(ends) < shortWatch { // a watch that ends earlier may be a broken connection
		i.heard.Store(time.Now())
	}
	return nil
}

// expired reports whether the server does not have the requested version any more, or does not have
// it yet.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// recordResult records the result of a request.
func (i *informer) recordResult(verb string, err error) {
	if errors.Is(err, context.Canceled) {
		return // the agent ended the request itself
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err = err; err != nil {
		i.err = fmt.Errorf("%s %s: %w", verb, i.kind, err)
	}
}

// silence returns the time since the server last sent something about the kind.
func (i *informer) silence() time.Duration { return time.Since(i.heard.Load().(time.Time)) }

// problem returns why the store may be out of date, or nil: the last request failed, or the server
// is silent.
func (i *informer) problem() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err != nil {
		return fmt.Errorf("the API server does not answer: %w", i.err)
	}
	if silence := i.silence(); silence >= silentAfter {
		return fmt.Errorf("the API server has said nothing about %s for %v", i.kind, silence.Round(time.Second))
	}
	return nil
}

package controllers

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// answering is a transport whose responses come from a function of the test.
type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// answer returns a response. If body is nil, reads of the response's body block until the request is
// canceled.
func answer(r *http.Request, code int, header http.Header, body io.Reader) *http.Response {
	header.Set("Content-Type", runtime.ContentTypeJSON)
	if body == nil {
		body = silent{r.Context()}
	}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(body), Request: r}
}

// silent is a response body without data.
type silent struct{ ctx context.Context }

func (s silent) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// overWire returns an informer of pods of an API server whose responses come from the function.
func overWire(t *testing.T, answers answering) *informer {
	source, err := ClusterSource(&rest.Config{Host: "http://server", Transport: answers}, "n1")
	require.NoError(t, err)
	return newInformer(KindPod, storeOf(keptPods("n1", few), &keys{}), source.Pods, klog.Logger{})
}

// TestServerThatKeepsWaiting: a list, and a watch that the server does not end at its timeout, fail in
// minutes, whatever the server withholds. They are no sign of life.
func TestServerThatKeepsWaiting(t *testing.T) {
	for name, answers := range map[string]answering{
		"headers": func(r *http.Request) (*http.Response, error) {
			_, err := silent{r.Context()}.Read(nil)
			return nil, err
		},
		"body": func(r *http.Request) (*http.Response, error) {
			return answer(r, http.StatusOK, http.Header{}, nil), nil
		},
		"everything for an hour": func(r *http.Request) (*http.Response, error) {
			return answer(r, http.StatusTooManyRequests, http.Header{"Retry-After": {"3600"}}, strings.NewReader("{}")), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				i := overWire(t, func(r *http.Request) (*http.Response, error) {
					asked++
					return answers(r)
				})
				began := time.Now()
				err := i.list(t.Context())
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, context.Canceled, "that would count as our own end")
				require.Equal(t, listTimeout, time.Since(began))

				asked, began = 0, time.Now()
				require.Error(t, i.watch(t.Context()))
				took := time.Since(began)
				require.GreaterOrEqual(t, took, maxWatch/2-time.Second+watchGrace)
				require.LessOrEqual(t, took, maxWatch+watchGrace)
				require.LessOrEqual(t, asked, 2, "client-go does not go on retrying in silence")
				require.Equal(t, listTimeout+took, i.silence())
			})
		})
	}
}

// mute is a source that answers its first list only, and whose watches send only the events that the
// test sends.
type mute struct {
	*apiServer
	watch func() watch.Interface
}

func (m mute) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if m.listed() > 0 {
		_, err := silent{ctx}.Read(nil)
		return nil, err
	}
	return m.List(options)
}

func (m mute) WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return m.watch(), nil
}

// TestSilentKind: if the API server sends nothing about one kind of objects for five minutes, the
// agent is not ready, and its error names the kind. Errors, and watches that end before their
// timeout, do not count as a sign of life.
func TestSilentKind(t *testing.T) {
	failing := func() watch.Interface {
		w := watch.NewFakeWithChanSize(1, false)
		status := apierrors.NewInternalError(io.ErrUnexpectedEOF).Status()
		w.Error(&status)
		return w
	}
	for name, watches := range map[string]func() watch.Interface{
		"open and mute":     func() watch.Interface { return watch.NewFake() },
		"ends after a time": func() watch.Interface { w := watch.NewFake(); time.AfterFunc(time.Minute, w.Stop); return w },
	} {
		t.Run(name, func(t *testing.T) {
			cl, r := newCluster(), &recorder{}
			source := cl.source()
			source.Pods = mute{cl.pods, watches}
			run(t, Config{Source: source, Applier: r}, func(t *testing.T, c *Controller) {
				time.Sleep(silentAfter - time.Second)
				require.NoError(t, c.Ready())
				time.Sleep(time.Second)
				require.EqualError(t, c.Ready(), "the API server has said nothing about pods for 5m0s")
				require.NoError(t, c.Healthy(), "a restart would not make it speak")
				require.Less(t, c.Staleness()[KindNamespace], silentAfter)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		// heard returns how long before the end of a watch the server was heard, or -1.
		heardOf := func(source cache.ListerWatcher) time.Duration {
			i := newInformer(KindPod, storeOf(keptPods("n1", few), &keys{}), source, klog.Logger{})
			began := time.Now()
			_ = i.watch(t.Context())
			if i.heard.Load() == began {
				return -1
			}
			return i.silence()
		}
		heard := func(w watch.Interface, lasts time.Duration) time.Duration {
			time.AfterFunc(lasts, w.Stop)
			return heardOf(mute{newCluster().pods, func() watch.Interface { return w }})
		}
		require.EqualValues(t, -1, heard(failing(), time.Second))
		require.EqualValues(t, -1, heard(failing(), 3*time.Minute), "an error that comes with the end")
		require.EqualValues(t, -1, heard(watch.NewFake(), time.Minute))
		require.Zero(t, heardOf(newCluster().pods), "the server ends a watch")
		bookmarked := watch.NewFakeWithChanSize(1, false)
		time.AfterFunc(time.Second, func() {
			bookmarked.Action(watch.Bookmark, newPod("a", ""))
			time.AfterFunc(time.Second, bookmarked.Stop)
		})
		require.Equal(t, time.Second, heardOf(mute{newCluster().pods, func() watch.Interface { return bookmarked }}))
	})
}

// TestNodesFallSilent: silence about nodes makes the agent unready only while it watches nodes.
func TestNodesFallSilent(t *testing.T) {
	cl, r := newCluster(), &recorder{}
	crd := serveClusters(nil, newClusterPolicy("a", true))
	source := cl.source()
	source.ClusterPolicies = crd
	source.AllNodes = mute{serve(cl.nodes.newEmpty(), newNode("n1", "10.9.0.1")), func() watch.Interface { return watch.NewFake() }}
	run(t, Config{Source: source, Applier: r}, func(t *testing.T, c *Controller) {
		require.NoError(t, c.Ready())
		time.Sleep(silentAfter)
		require.ErrorContains(t, c.Ready(), "said nothing about "+KindClusterNode.String())
		crd.remove(newClusterPolicy("a", true))
		time.Sleep(time.Minute)
		require.NoError(t, c.Ready(), "no policy names nodes any more")
	})
}

package controllers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// An API server, or a proxy before it, can tell a client to be quiet for an hour or never say
// anything. client-go obeys, and has no deadline for a watch.
const (
	maxRetryAfter = 30 * time.Second // a longer Retry-After is cut to this
	headersWithin = 30 * time.Second // of each request
	watchGrace    = time.Minute      // how long after its timeoutSeconds a watch is ended
)

// errNoHeaders is not a timeout by its type: client-go would try again ten times, in silence.
var errNoHeaders = fmt.Errorf("no answer within %v", headersWithin)

// errOverdue is why a watch is ended that the server should have ended before.
var errOverdue = errors.New("the watch is over its time")

// impatient is a transport that does not let the server decide how long the agent hears nothing.
type impatient struct{ http.RoundTripper }

func newImpatient(inner http.RoundTripper) http.RoundTripper { return &impatient{inner} }

// WrappedRoundTripper returns the transport below, as client-go looks for it to close connections.
func (i *impatient) WrappedRoundTripper() http.RoundTripper { return i.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i *impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	late := time.AfterFunc(headersWithin, func() { cancel(errNoHeaders) })
	response, err := i.RoundTripper.RoundTrip(r.WithContext(ctx))
	late.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), errNoHeaders) {
			err = errNoHeaders
		}
		cancel(nil)
		return nil, err
	}
	if after, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && after > int(maxRetryAfter.Seconds()) {
		response.Header.Set("Retry-After", strconv.Itoa(int(maxRetryAfter.Seconds())))
	}
	body := &timedBody{ReadCloser: response.Body, cancel: cancel}
	query := r.URL.Query()
	if after, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil && query.Has("watch") {
		body.overdue = time.AfterFunc(time.Duration(after)*time.Second+watchGrace, func() { cancel(errOverdue) })
	}
	response.Body = body
	return response, nil
}

// timedBody is the body of an answer. That of a watch which is over its time breaks off.
type timedBody struct {
	io.ReadCloser
	cancel  context.CancelCauseFunc
	overdue *time.Timer // nil: no watch
	once    sync.Once
}

// Close implements io.Closer.
func (b *timedBody) Close() error {
	b.once.Do(func() {
		if b.overdue != nil {
			b.overdue.Stop()
		}
		b.cancel(nil)
	})
	return b.ReadCloser.Close()
}

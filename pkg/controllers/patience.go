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

// These limits bound the delays that an API server, or a proxy in front of it, can cause. It can
// send a Retry-After of an hour, or never answer. client-go honors any Retry-After and sets no
// deadline for a watch.
const (
	maxRetryAfter = 30 * time.Second // a longer Retry-After is reduced to this
	headersWithin = 30 * time.Second // time from each request to the headers of its response
	watchGrace    = time.Minute      // a watch is closed this long after its timeoutSeconds
)

// errNoHeaders is the error of a request without response headers. It does not implement
// Timeout(), because client-go would silently retry a timeout ten times.
var errNoHeaders = fmt.Errorf("no answer within %v", headersWithin)

// errOverdue is the error of a watch that the server did not close in time.
var errOverdue = errors.New("the watch is over its time")

// impatient is a transport that enforces the limits above.
type impatient struct{ http.RoundTripper }

func newImpatient(inner http.RoundTripper) http.RoundTripper { return &impatient{inner} }

// WrappedRoundTripper returns the wrapped transport. client-go uses it to close connections.
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

// timedBody is the body of a response. Reading the body of an overdue watch fails.
type timedBody struct {
	io.ReadCloser
	cancel  context.CancelCauseFunc
	overdue *time.Timer // cancels an overdue watch; nil for other requests
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

package controllers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// These limits bound the delays that an API server, or a proxy in front of it, can cause. It can
// send a Retry-After of an hour, or never answer. client-go honors any Retry-After. The informer
// ends a watch that is over its time.
const (
	maxRetryAfter = 30 * time.Second // a longer Retry-After is reduced to this
	headersWithin = 30 * time.Second // time from each request to the headers of its response
)

// errNoHeaders is the error of a request without response headers. It does not implement
// Timeout(), because client-go would silently retry a timeout ten times.
var errNoHeaders = fmt.Errorf("no answer within %v", headersWithin)

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
	response.Body = &cancelingBody{response.Body, func() { cancel(nil) }}
	return response, nil
}

// cancelingBody is the body of a response. Its Close releases what the request holds.
type cancelingBody struct {
	io.ReadCloser
	cancel func()
}

// Close implements io.Closer.
func (b *cancelingBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

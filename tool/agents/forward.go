package agents

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// maxReason limits the bytes that are read of a kubelet's error.
	maxReason = 1 << 10
	// maxHeaders limits the bytes of an answer before its body.
	maxHeaders = 64 << 10
)

// Transport returns a transport that sends every request to an agent, through a new port-forward each, and
// ignores the host in the URL. It opens no listener on this machine.
func (c *Cluster) Transport(a Agent) http.RoundTripper {
	return transport{c, a}
}

type transport struct {
	cluster *Cluster
	agent   Agent
}

// RoundTrip implements http.RoundTripper. It closes the connection when the body of the response is closed
// or the request's context is done.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	f, err := t.cluster.forward(ctx, t.agent)
	if err != nil {
		return nil, fmt.Errorf("port-forward to %s: %w", t.agent, err)
	}
	context.AfterFunc(ctx, f.close)
	resp, err := f.exchange(req)
	if err != nil {
		f.close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("port-forward to %s: %w", t.agent, err)
	}
	resp.Body = body{resp.Body, f.close}
	return resp, nil
}

// body is a response body that closes the connection when it is closed.
type body struct {
	io.ReadCloser
	end func()
}

func (b body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// forwarded is a connection to a port of a pod. It has two streams over one upgraded connection to the API
// server: one for data, and one for the kubelet's error if it cannot forward.
type forwarded struct {
	data   httpstream.Stream
	reason chan string // gets the kubelet's error, or "", when the error stream ends
	close  func()      // may be called at any time, more than once
}

// forward opens a connection to an agent.
func (c *Cluster) forward(ctx context.Context, a Agent) (*forwarded, error) {
	conn, err := c.upgrade(ctx, a)
	if err != nil {
		return nil, err
	}
	f := &forwarded{reason: make(chan string, 1)}
	f.close = sync.OnceFunc(func() { _ = conn.Close() }) // all data was read, or is not needed
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(int(a.Port)))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	reasons, err := conn.CreateStream(headers.Clone())
	if err == nil {
		_ = reasons.Close() // closes the sending side only
		headers.Set(corev1.StreamType, corev1.StreamTypeData)
		f.data, err = conn.CreateStream(headers)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	go func() {
		text, err := io.ReadAll(io.LimitReader(reasons, maxReason))
		if err != nil {
			text = nil // the connection is lost, so reading data fails too
		}
		f.reason <- string(text)
	}()
	return f, nil
}

// upgrade opens a connection for streams to the API server, like kubectl: through a WebSocket, which passes
// proxies, or else with SPDY.
func (c *Cluster) upgrade(ctx context.Context, a Agent) (httpstream.Connection, error) {
	url := c.core.Post().Namespace(a.Namespace).Resource("pods").Name(a.Name).SubResource("portforward").URL()
	api := rest.CopyConfig(c.api)
	api.Wrap(func(next http.RoundTripper) http.RoundTripper { return inContext{ctx, next} })
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, api)
	if err != nil {
		return nil, err
	}
	through, upgrader, err := spdy.RoundTripperFor(api)
	if err != nil {
		return nil, err
	}
	bySPDY := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: through}, http.MethodPost, url)
	conn, _, err := portforward.NewFallbackDialerForStreaming(tunnel, bySPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}).Dial(portforward.PortForwardProtocolV1Name)
	return conn, err
}

// inContext sets the context of requests, as the dialers create them without one.
type inContext struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (i inContext) RoundTrip(req *http.Request) (*http.Response, error) {
	return i.next.RoundTrip(req.WithContext(i.ctx))
}

// exchange sends a request and reads the answer up to its body.
func (f *forwarded) exchange(req *http.Request) (*http.Response, error) {
	if err := req.Write(f.data); err != nil {
		return nil, f.failure(err)
	}
	in := &io.LimitedReader{R: f, N: maxHeaders}
	resp, err := http.ReadResponse(bufio.NewReader(in), req)
	if err != nil && in.N <= 0 {
		return nil, fmt.Errorf("the headers of the answer are longer than %d bytes: this is no agent", maxHeaders)
	}
	in.N = math.MaxInt64 // readers of the body limit it themselves
	return resp, err
}

// Read reads the agent's answer. If the connection fails, the error is the kubelet's.
func (f *forwarded) Read(p []byte) (int, error) {
	n, err := f.data.Read(p)
	if err != nil {
		err = f.failure(err)
	}
	return n, err
}

// failure returns the kubelet's error if there is one, else err.
func (f *forwarded) failure(err error) error {
	_ = f.data.Reset() // else the kubelet may wait for more
	text := <-f.reason // arrives at the latest when the connection ends
	f.reason <- text   // for the next call
	if text != "" {
		return errors.New(strings.TrimSpace(text))
	}
	return err
}

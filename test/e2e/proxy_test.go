package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy stands between an agent and the API server. It can be cut, so that
// nobody listens there, and it remembers what went through it.
type proxy struct {
	t       *testing.T
	url     string
	ca      []byte // the certificate that it shows
	handler http.Handler
	tls     tls.Certificate

	server *http.Server // nil while it is cut

	mu     sync.Mutex // guards following
	events []event
}

// event is one thing that the proxy saw.
type event struct {
	kind     string // "list", "watch" or "expired"
	resource string // "pods"
}

// expired is what the API server says of a resource version whose history is
// gone, in the body of a list's or of a watch's answer.
const expired = "too old resource version"

// newProxy starts a proxy that lives until the test ends.
func newProxy(t *testing.T) *proxy {
	t.Helper()
	// The test server only lends its certificate, which names 127.0.0.1.
	lender := httptest.NewTLSServer(http.NotFoundHandler())
	lender.Close()
	p := &proxy{
		t:   t,
		ca:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: lender.Certificate().Raw}),
		tls: lender.TLS.Certificates[0],
	}
	target, err := url.Parse(admin.Host)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(admin.CAData))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	p.handler = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			p.note(kindOf(r.In), r.In)
		},
		Transport:      transport,
		FlushInterval:  -1, // an event of a watch must not wait
		ModifyResponse: p.listen,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	p.open("127.0.0.1:0")
	t.Cleanup(func() {
		if p.server != nil {
			p.cut()
		}
	})
	return p
}

// open begins to listen.
func (p *proxy) open(address string) {
	p.t.Helper()
	var listener net.Listener
	eventually(p.t, settle, func() string {
		var err error
		if listener, err = net.Listen("tcp", address); err != nil {
			return err.Error() // somebody's connection has the port for a moment
		}
		return ""
	})
	p.url = "https://" + listener.Addr().String()
	p.server = &http.Server{
		Handler:           p.handler,
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{p.tls}, MinVersion: tls.VersionTLS12},
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func(s *http.Server) { _ = s.ServeTLS(listener, "", "") }(p.server) // ends when cut
}

// cut closes every connection; new ones are refused.
func (p *proxy) cut() {
	_ = p.server.Close() // nothing is to be done about a connection that is gone
	p.server = nil
}

// mend undoes cut, on the same port.
func (p *proxy) mend() {
	p.t.Helper()
	p.open(strings.TrimPrefix(p.url, "https://"))
}

// listen looks for the end of a history in an answer.
func (p *proxy) listen(response *http.Response) error {
	if response.StatusCode == http.StatusGone {
		p.note("expired", response.Request)
		return nil
	}
	response.Body = &search{ReadCloser: response.Body, text: []byte(expired), found: func() { p.note("expired", response.Request) }}
	return nil
}

func (p *proxy) note(kind string, request *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, event{kind, request.URL.Path[strings.LastIndexByte(request.URL.Path, '/')+1:]})
}

// forget empties the memory.
func (p *proxy) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = nil
}

// relisted returns the resources whose history was gone and which were listed
// in full after that.
func (p *proxy) relisted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var done []string
	for i, e := range p.events {
		if e.kind == "expired" && slices.Contains(p.events[i:], event{"list", e.resource}) {
			done = append(done, e.resource)
		}
	}
	slices.Sort(done)
	return slices.Compact(done)
}

// kindOf tells a full list from a watch. Newer clients list with a watch that
// begins with what is there.
func kindOf(request *http.Request) string {
	query := request.URL.Query()
	if query.Get("watch") == "true" && query.Get("sendInitialEvents") != "true" {
		return "watch"
	}
	return "list"
}

// search passes a body on and calls found when text is in it.
type search struct {
	io.ReadCloser
	text  []byte
	tail  []byte // end of what was read
	found func()
}

func (s *search) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	seen := append(s.tail, p[:n]...)
	if bytes.Contains(seen, s.text) {
		s.found()
		seen = nil
	}
	s.tail = bytes.Clone(seen[max(0, len(seen)-len(s.text)+1):])
	return n, err
}

package e2e

import (
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

	"github.com/winnpm/winnpm/test/servers"
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

	mu        sync.Mutex // guards resources
	resources []string   // the last elements of the paths of all requests
}

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
			p.note(r.In.URL.Path)
		},
		Transport:     transport,
		FlushInterval: -1, // an event of a watch must not wait
		ErrorLog:      log.New(io.Discard, "", 0),
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
	servers.Eventually(p.t, settle, func() string {
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

// asked returns how many requests went through the proxy for paths that end so.
func (p *proxy) asked(ends ...string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, resource := range p.resources {
		if slices.Contains(ends, resource) {
			n++
		}
	}
	return n
}

func (p *proxy) note(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resources = append(p.resources, path[strings.LastIndexByte(path, '/')+1:])
}

// forget empties the memory.
func (p *proxy) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resources = nil
}

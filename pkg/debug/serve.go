package debug

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"
)

// Serve answers requests on l until ctx is done, then gives those in progress
// a second to end. It closes l.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return serve(ctx, newCrowd(l), newServer(ctx, h))
}

// ServeProbes is Serve for the kubelet. All its clients have one address, so it has no
// bound for each; instead it closes every connection after one answer.
func ServeProbes(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := newServer(ctx, h)
	srv.SetKeepAlivesEnabled(false)
	return serve(ctx, &crowd{Listener: l, most: connectionsAtOnce, ofOne: connectionsAtOnce}, srv)
}

// ServeTLS is Serve with encryption; certificate is tls.Config.GetCertificate.
// Clients may send certificates of their own, whatever these say: TLS proves that
// they have the keys, and h judges them in each request.
func ServeTLS(ctx context.Context, l net.Listener, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), h http.Handler) error {
	// Without ALPN it is HTTP/1.1, where limits of connections are limits of requests.
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate, ClientAuth: tls.RequestClientCert}
	return serve(ctx, tls.NewListener(newCrowd(l), cfg), newServer(ctx, h))
}

func serve(ctx context.Context, l net.Listener, srv *http.Server) error {
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err := srv.Shutdown(grace)
		if err != nil {
			err = srv.Close()
		}
		ended <- err
	})
	err := srv.Serve(l)
	if stop() {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err) // ctx is not why it ended
	}
	return <-ended
}

// newServer returns a server whose clients cannot be slower than its times. A
// response that takes longer is cut.
func newServer(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           busy(h),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      5 * time.Minute, // a dump of a large cluster over a slow line, a profile
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConn,
		ErrorLog:          log.New(quiet{}, "", 0),
	}
}

// quiet passes on to package log what a server logs, but not what anybody can
// make it log: that a client does not speak TLS.
type quiet struct{}

func (quiet) Write(line []byte) (int, error) {
	if !bytes.Contains(line, []byte("TLS handshake error")) {
		log.Print(string(bytes.TrimSuffix(line, []byte("\n"))))
	}
	return len(line), nil
}

package debug

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/debug/access"
)

// A client may send any certificate or none, and its request says what TLS proved,
// also in a session that is resumed.
func TestClientCertificates(t *testing.T) {
	certificate, _, err := access.SelfSigned("n1")
	require.NoError(t, err)
	own, err := certificate(nil)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(own.Leaf)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		_ = ServeTLS(t.Context(), l, certificate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // until the test ends
			for _, c := range r.TLS.PeerCertificates {
				_, _ = io.WriteString(w, c.Subject.CommonName)
			}
		}))
	}()
	for _, client := range []struct {
		name    string
		sent    []tls.Certificate
		resumes bool
	}{
		{"eve", []tls.Certificate{selfSigned(t, "eve", time.Now().Add(time.Hour))}, true},
		{"adam", []tls.Certificate{selfSigned(t, "adam", time.Now().Add(-time.Hour))}, false},
		{"", nil, true},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
				RootCAs: roots, ServerName: "n1", MinVersion: version, MaxVersion: version,
				Certificates: client.sent, ClientSessionCache: tls.NewLRUClientSessionCache(1),
			}}
			for _, again := range []bool{false, true} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String(), nil)
				require.NoError(t, err)
				resp, err := transport.RoundTrip(req)
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, again && client.resumes, resp.TLS.DidResume)
				require.Equal(t, client.name, string(body))
			}
		}
	}
}

// selfSigned returns a certificate of nobody's authority.
func selfSigned(t *testing.T, name string, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(0, 0), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// signer is an authority.
type signer struct {
	t   *testing.T
	own *x509.Certificate
	key *ecdsa.PrivateKey
}

// made returns a certificate with a key of its own, signed by an authority, or by
// itself. The template says what is in it.
func (by *signer) made(t *testing.T, template x509.Certificate) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	parent, with := &template, key
	if by != nil {
		parent, with = by.own, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, key.Public(), with)
	require.NoError(t, err)
	own, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return signer{t, own, key}
}

func newAuthorityOf(t *testing.T, by *signer, name string) *signer {
	t.Helper()
	made := by.made(t, x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return &made
}

// client returns the certificate of a user of the group g.
func (by *signer) client(user string, change ...func(*x509.Certificate)) *x509.Certificate {
	by.t.Helper()
	template := x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: []string{"g"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range change {
		c(&template)
	}
	return by.made(by.t, template).own
}

func (by *signer) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: by.own.Raw})
}

// shown asks for a page with certificates, from an address.
func shown(t *testing.T, h http.Handler, addr, path string, sent ...*x509.Certificate) *httptest.ResponseRecorder {
	t.Helper()
	return both(t, h, addr, path, nil, sent...)
}

// both asks with headers Authorization and certificates.
func both(t *testing.T, h http.Handler, addr, path string, authorization []string, sent ...*x509.Certificate) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.RemoteAddr = net.JoinHostPort(addr, "1")
	r.Header["Authorization"] = authorization
	r.TLS = &tls.ConnectionState{PeerCertificates: sent}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

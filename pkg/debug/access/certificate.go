package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"math/big"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Certificate is tls.Config.GetCertificate.
type Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// lookAgain is the time after which the files of a certificate are read again,
// so that one that is renewed is taken up without a restart.
const lookAgain = time.Minute

// FromFiles returns the certificate of two PEM files. While they cannot be read
// any more, which is logged, it stays the one that was read last.
func FromFiles(certFile, keyFile string, logger klog.Logger) (Certificate, error) {
	first, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards following
	current, read := &first, time.Now()
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(read) < lookAgain {
			return current, nil
		}
		read = time.Now()
		next, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			logger.Error(err, "the certificate of the debug pages cannot be read, the last one stays")
			return current, nil
		}
		current = &next
		return current, nil
	}, nil
}

// selfSignedTime is longer than a process runs.
const selfSignedTime = 10 * 365 * 24 * time.Hour

// SelfSigned returns a certificate for a node that is made now and nowhere
// stored, and the pin by which a client knows it, as curl --pinnedpubkey takes it.
func SelfSigned(node string) (_ Certificate, pin string, _ error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("key of the debug pages: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: node},
		DNSNames:     []string{node, "localhost"},
		NotBefore:    now.Add(-time.Hour), // clocks differ
		NotAfter:     now.Add(selfSignedTime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", fmt.Errorf("certificate of the debug pages: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, "", fmt.Errorf("certificate of the debug pages: %w", err)
	}
	made := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return made, nil }, "sha256//" + base64.StdEncoding.EncodeToString(sum[:]), nil
}

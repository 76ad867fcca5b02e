package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// The files of the authority for users with certificates: beside the kubeconfig, where
// the suite finds them.
const (
	clientCA    = "clients.crt"
	clientCAKey = "clients.key"
)

// writeClientCA makes an authority for users in dir. It is another one than the server's.
func writeClientCA(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "clients"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, clientCA), encode("CERTIFICATE", der), 0o600); err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, clientCAKey), key)
}

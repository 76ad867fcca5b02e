package access

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/textlogger"
)

// made returns a new certificate of a node.
func made(t *testing.T, node string) (*tls.Certificate, string) {
	t.Helper()
	certificate, pin, err := SelfSigned(node)
	require.NoError(t, err)
	c, err := certificate(nil)
	require.NoError(t, err)
	return c, pin
}

func TestSelfSigned(t *testing.T) {
	c, pin := made(t, "win-1")
	roots := x509.NewCertPool()
	roots.AddCert(c.Leaf)
	for _, name := range []string{"win-1", "localhost"} {
		_, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots})
		require.NoError(t, err)
	}
	require.False(t, c.Leaf.IsCA, "who trusts it trusts nothing else")
	sum := sha256.Sum256(c.Leaf.RawSubjectPublicKeyInfo)
	require.Equal(t, "sha256//"+base64.StdEncoding.EncodeToString(sum[:]), pin)
	_, other := made(t, "win-1")
	require.NotEqual(t, pin, other, "each process has its own")
}

// write puts a new certificate into two files.
func write(t *testing.T, dir, node string) (certFile, keyFile string) {
	t.Helper()
	c, _ := made(t, node)
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey.(*ecdsa.PrivateKey))
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	return certFile, keyFile
}

func TestFilesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
		dir := t.TempDir()
		certFile, keyFile := write(t, dir, "first")
		certificate, err := FromFiles(certFile, keyFile, logger)
		require.NoError(t, err)
		name := func() string {
			c, err := certificate(nil)
			require.NoError(t, err)
			return c.Leaf.Subject.CommonName
		}
		require.Equal(t, "first", name())
		write(t, dir, "second")
		require.Equal(t, "first", name(), "not at every handshake")
		time.Sleep(lookAgain)
		require.Equal(t, "second", name())

		require.NoError(t, os.WriteFile(certFile, nil, 0o600))
		time.Sleep(lookAgain)
		for range 3 {
			require.Equal(t, "second", name())
		}
		require.Equal(t, 1, strings.Count(log.String(), "the certificate of the debug pages cannot be read, the last one stays"), log.String())
		write(t, dir, "third")
		time.Sleep(lookAgain)
		require.Equal(t, "third", name())
	})
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := write(t, dir, "n")
	_, err := FromFiles(certFile, filepath.Join(dir, "none"), textlogger.NewLogger(textlogger.NewConfig()))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = FromFiles(keyFile, keyFile, textlogger.NewLogger(textlogger.NewConfig()))
	require.ErrorContains(t, err, "PEM inputs may have been switched")
	require.NotContains(t, err.Error(), "\n")
}

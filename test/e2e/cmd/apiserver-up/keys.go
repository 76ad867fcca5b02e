package main

import (
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// keys are the files with which the API server proves its name and signs ServiceAccount
// tokens.
type keys struct {
	caPEM             []byte
	serverCert        string // path
	serverKey         string // path
	serviceAccountKey string // path
}

// writeKeys makes fresh keys in dir.
func writeKeys(dir string) (*keys, error) {
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, err
	}
	accountPEM, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, err
	}
	k := &keys{
		caPEM:             certPEM,
		serverCert:        filepath.Join(dir, "server.crt"),
		serverKey:         filepath.Join(dir, "server.key"),
		serviceAccountKey: filepath.Join(dir, "service-account.key"),
	}
	for file, content := range map[string][]byte{k.serverCert: certPEM, k.serverKey: keyPEM, k.serviceAccountKey: accountPEM} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return nil, err
		}
	}
	return k, nil
}

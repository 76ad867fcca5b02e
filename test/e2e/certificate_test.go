package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// certified is a user with a certificate of the authority that the API server believes.
type certified struct{ certificate, key []byte }

func newCertified(t *testing.T, user string, groups ...string) certified {
	t.Helper()
	folder := filepath.Dir(up.kubeconfig)
	ca, err := tls.LoadX509KeyPair(filepath.Join(folder, "clients.crt"), filepath.Join(folder, "clients.key"))
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		NotBefore:    time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	require.NoError(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return certified{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}
}

// person returns who has the certificate, and no token, in a kubeconfig.
func (c certified) person(t *testing.T) person {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
 contexts: [{name: c, context: {cluster: c, user: u}}],
 clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}],
 users: [{name: u, user: {client-certificate-data: %s, client-key-data: %s}}]}
`, admin.Host, base64.StdEncoding.EncodeToString(admin.CAData), base64.StdEncoding.EncodeToString(c.certificate), base64.StdEncoding.EncodeToString(c.key))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return withPlugin(t, path)
}

// with returns the endpoint for a client that shows a certificate.
func (e exposed) with(c certified) exposed {
	e.t.Helper()
	own, err := tls.X509KeyPair(c.certificate, c.key)
	require.NoError(e.t, err)
	transport := e.client.Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.Certificates = []tls.Certificate{own}
	e.t.Cleanup(transport.CloseIdleConnections)
	e.client = &http.Client{Transport: transport}
	return e
}

// A developer whose kubeconfig has a client certificate alone asks the agents, with a
// role of the group that the certificate names, and without any port-forward.
func TestDeveloperWithCertificate(t *testing.T) {
	const dump = "/npm/v1/debug/manager"
	w := newWorld(t)
	w.node("cert-0", "192.168.6.2")
	ann, bob := newCertified(t, "ann", "shop", "page-readers"), newCertified(t, "bob", "shop")
	more := renderExposed(t)
	for _, object := range more {
		if object.GetKind() != "RoleBinding" {
			applied(t, object)
		}
	}
	w.bound("page-readers", "winnpm-debug-reader", rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "page-readers"})

	t.Log("an agent that may not read the authority takes tokens alone, and says so")
	_, _, agent := startExposed(t, "cert-0")
	code, body := agent.with(ann).get(dump, "")
	require.Equal(t, http.StatusUnauthorized, code, body)
	require.Contains(t, body, "deploy/exposed is not applied")
	w.namespace("cert-shop", "")
	reader := w.account("cert-shop", "reader", "winnpm-debug-reader")
	agent.with(ann).becomes(dump, reader(), http.StatusOK)

	for _, object := range more {
		if object.GetKind() == "RoleBinding" {
			applied(t, object)
		}
	}
	authority, port := w.exposedAgents("10.72.0.1", "10.72.0.2")
	for i, p := range []pod{
		{namespace: "cert-shop", name: "web", ip: "10.72.0.1", labels: "app=web"},
		{namespace: "cert-shop", name: "db", ip: "10.72.0.2", labels: "app=db"},
	} {
		p.node, p.host = fmt.Sprintf("dev-%d", 1+i), nodeAddress(i)
		w.pod(p)
	}
	w.policy("cert-shop", "db", `{podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: 5432}]}]}`)
	w.roleOf(rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "shop"}, "cert-shop", []string{"get", "list"}, []string{"pods"})
	direct := []string{"--direct", "--agent-ca", authority, "--agent-port", port}
	asks := func(who person, want int, says, to string) {
		t.Helper()
		eventually(t, settle, func() string { // until the agents have the policy
			code, stdout, stderr := who.trace(t, append([]string{"-n", "cert-shop", "web", to}, direct...)...)
			if code != want || !strings.Contains(stdout+stderr, says) {
				return fmt.Sprintf("exit code %d\n%s%s", code, stdout, stderr)
			}
			return ""
		})
	}
	asks(ann.person(t), 0, "into cert-shop/db on dev-2: allowed, ", "db:5432")
	asks(ann.person(t), 3, "into cert-shop/db on dev-2: BLOCKED, policy cert-shop/db isolates cert-shop/db for ingress", "db:443")
	asks(bob.person(t), 1, "403 Forbidden: bob may not get "+dump, "db:5432")
}

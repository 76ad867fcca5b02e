package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// cluster is one etcd and one API server over it, in a folder of their own.
type cluster struct {
	dir  string // holds keys, data and logs
	bin  string // holds the two binaries
	wait time.Duration

	keys      *keys
	token     string // of the administrator
	etcdURL   string
	port      int // of the API server
	etcd      *process
	apiserver *process
}

// attempts is how often a server is started on another port, as another
// process may take a port between our finding and using it.
const attempts = 3

// up starts both servers and waits until they are ready.
func (c *cluster) up(ctx context.Context) error {
	var err error
	if c.keys, err = writeKeys(c.dir); err != nil {
		return err
	}
	c.token = rand.Text()
	users := fmt.Sprintf("%s,admin,admin,system:masters\n", c.token)
	if err := os.WriteFile(c.path("tokens.csv"), []byte(users), 0o600); err != nil {
		return err
	}
	if err := retry(func() error { return c.startEtcd(ctx) }); err != nil {
		return err
	}
	if err := retry(func() error {
		if c.port, err = freePort(); err != nil {
			return err
		}
		return c.startAPIServer(ctx)
	}); err != nil {
		return err
	}
	return c.writeKubeconfig()
}

func retry(start func() error) error {
	var err error
	for range attempts {
		if err = start(); err == nil {
			return nil
		}
	}
	return err
}

// close ends what runs, the API server first.
func (c *cluster) close() {
	for _, p := range []*process{c.apiserver, c.etcd} {
		if p != nil {
			p.stop()
		}
	}
}

// obey does what one line of standard input asks and returns what to answer.
func (c *cluster) obey(ctx context.Context, command string) (string, error) {
	switch command {
	case "stop":
		c.apiserver.stop()
		return command, nil
	case "start":
		if !c.apiserver.stopped {
			return "", fmt.Errorf("the API server is running; stop it first")
		}
		return command, c.startAPIServer(ctx)
	default:
		return "", fmt.Errorf("unknown command %q: use stop or start", command)
	}
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) kubeconfig() string { return c.path("kubeconfig") }

func (c *cluster) startEtcd(ctx context.Context) error {
	client, err := freePort()
	if err != nil {
		return err
	}
	peer, err := freePort()
	if err != nil {
		return err
	}
	c.etcdURL = fmt.Sprintf("http://127.0.0.1:%d", client)
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", peer)
	c.etcd, err = startProcess(filepath.Join(c.bin, "etcd"), c.path("etcd.log"),
		"--name=e2e",
		"--data-dir="+c.path("etcd"),
		"--listen-client-urls="+c.etcdURL,
		"--advertise-client-urls="+c.etcdURL,
		"--listen-peer-urls="+peerURL,
		"--initial-advertise-peer-urls="+peerURL,
		"--initial-cluster=e2e="+peerURL,
		"--unsafe-no-fsync", // nothing here outlives the process
		"--log-level=warn",
	)
	if err != nil {
		return err
	}
	return c.ready(ctx, c.etcd, http.DefaultClient, c.etcdURL+"/health", "")
}

func (c *cluster) startAPIServer(ctx context.Context) error {
	var err error
	c.apiserver, err = startProcess(filepath.Join(c.bin, "kube-apiserver"), c.path("kube-apiserver.log"),
		"--etcd-servers="+c.etcdURL,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.port),
		// No endpoint of the service "kubernetes" is published, so that a
		// machine without any other address than loopback is enough.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true", // as every cluster with HostProcess containers
		"--authorization-mode=RBAC",
		"--token-auth-file="+c.path("tokens.csv"),
		"--cert-dir="+c.dir,
		"--tls-cert-file="+c.keys.serverCert,
		"--tls-private-key-file="+c.keys.serverKey,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.keys.serviceAccountKey,
		"--service-account-signing-key-file="+c.keys.serviceAccountKey,
		"--profiling=false",
		// Without it a watch that its client keeps holds up the end.
		"--shutdown-watch-termination-grace-period=2s",
	)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.keys.caPEM)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	return c.ready(ctx, c.apiserver, client, c.serverURL()+"/readyz", c.token)
}

func (c *cluster) serverURL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.port) }

// ready waits until url answers 200. On an error the process is stopped.
func (c *cluster) ready(ctx context.Context, p *process, client *http.Client, url, token string) error {
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-p.done:
			return p.failure()
		case <-ctx.Done():
			p.stop()
			return fmt.Errorf("%s is not ready after %v: %w\n%s", p.name, c.wait, ctx.Err(), p.tail())
		}
	}
}

func (c *cluster) writeKubeconfig() error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: e2e
contexts:
- name: e2e
  context: {cluster: e2e, user: admin}
clusters:
- name: e2e
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: admin
  user: {token: %s}
`, c.serverURL(), base64.StdEncoding.EncodeToString(c.keys.caPEM), c.token)
	return os.WriteFile(c.kubeconfig(), []byte(text), 0o600)
}

// freePort returns a port of the loopback address that nobody listens on now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

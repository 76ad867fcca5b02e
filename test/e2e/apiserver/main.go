// Command apiserver-up runs a real kube-apiserver and etcd in this process, on loopback and in a temporary folder.
//
// Standard output gets one line when the server is ready: the path of an administrator's kubeconfig. The program
// ends, and removes the folder, when its standard input ends or on SIGINT or SIGTERM.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// startLimit limits the time until the servers are ready, and kubeconfig is the administrator's file.
const (
	startLimit = 2 * time.Minute
	kubeconfig = "kubeconfig"
)

func main() {
	stderr := os.Stderr
	if err := run(); err != nil {
		fmt.Fprintln(stderr, "apiserver-up:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	dir, err := os.MkdirTemp("", "apiserver-up-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	os.Stderr = log // both servers log there
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the parent closes it, or ends
		cancel()
	}()
	if err := serve(ctx, dir); err != nil && ctx.Err() == nil {
		text, _ := os.ReadFile(log.Name()) // only for the error text
		return fmt.Errorf("%w\n%s", err, text[max(0, len(text)-4000):])
	}
	return nil
}

// serve runs both servers until ctx is done or one of them fails.
func serve(ctx context.Context, dir string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	config := embed.NewConfig()
	config.Dir, config.LogLevel = filepath.Join(dir, "etcd"), "warn"
	config.UnsafeNoFsync = true                              // the data is not kept
	here := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}} // free ports
	config.ListenClientUrls, config.AdvertiseClientUrls = here, here
	config.ListenPeerUrls, config.AdvertisePeerUrls = here, here
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	store, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer store.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	completed, err := complete(ctx, dir, listener, "http://"+store.Clients[0].Addr().String())
	if err != nil {
		return err
	}
	go func() { cancel(fmt.Errorf("etcd: %w", <-store.Err())) }()
	go func() {
		if err := untilReady(ctx, filepath.Join(dir, kubeconfig)); err != nil {
			cancel(err)
			return
		}
		fmt.Println(filepath.Join(dir, kubeconfig))
	}()
	if err := app.Run(ctx, completed); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// complete returns the options of an API server that knows one administrator by a token, and writes the kubeconfig.
func complete(ctx context.Context, dir string, listener net.Listener, etcd string) (none options.CompletedOptions, err error) {
	token, tokens := rand.Text(), filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return none, err
	}
	certificate, key := filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key") // s.Complete writes both
	s := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range s.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse([]string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1",
		// No endpoint of the service "kubernetes" is published, so that a
		// machine without any other address than loopback is enough.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true", // as every cluster with HostProcess containers
		"--authorization-mode=RBAC",
		"--token-auth-file=" + tokens,
		"--cert-dir=" + dir,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + key,
		"--service-account-signing-key-file=" + key,
		"--profiling=false",
		// Without it an open watch delays the shutdown.
		"--shutdown-watch-termination-grace-period=2s",
	}); err != nil {
		return none, err
	}
	s.SecureServing.Listener, s.SecureServing.BindPort = listener, listener.Addr().(*net.TCPAddr).Port
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return none, err
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return none, err
	}
	if err := utilerrors.NewAggregate(completed.Validate()); err != nil {
		return none, err
	}
	config := api.Config{
		CurrentContext: "e2e",
		Contexts:       map[string]*api.Context{"e2e": {Cluster: "e2e", AuthInfo: "admin"}},
		Clusters:       map[string]*api.Cluster{"e2e": {Server: "https://" + listener.Addr().String(), CertificateAuthority: certificate}},
		AuthInfos:      map[string]*api.AuthInfo{"admin": {Token: token}},
	}
	if err := api.FlattenConfig(&config); err != nil {
		return none, err
	}
	return completed, clientcmd.WriteToFile(config, filepath.Join(dir, kubeconfig))
}

// untilReady waits until the API server of a kubeconfig is ready.
func untilReady(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startLimit, false, func(ctx context.Context) (bool, error) {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	})
}

package controllers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

// RESTConfig reads a kubeconfig file, or with "" what a pod finds in its
// container. It does not talk to the server.
func RESTConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		cfg, err := hostProcessConfig(os.Getenv(mountPointEnv))
		if cfg == nil && err == nil {
			cfg, err = rest.InClusterConfig()
		}
		if err != nil {
			return nil, fmt.Errorf("no kubeconfig given and not in a cluster: %w", err)
		}
		return cfg, nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("kubeconfig %s: names no cluster; check its current-context", kubeconfig)
	case err != nil:
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return cfg, nil
}

// mountPointEnv is where containerd puts the files of a HostProcess container.
// Up to 1.6 that is the only place where its volumes are, as such a container
// sees the file system of the host; what the host has at the usual path would be
// somebody else's (kubernetes.io, "Create a Windows HostProcess Pod").
const mountPointEnv = "CONTAINER_SANDBOX_MOUNT_POINT"

// serviceAccountDir is where a pod has its credentials, below the root.
const serviceAccountDir = "var/run/secrets/kubernetes.io/serviceaccount"

// hostProcessConfig is rest.InClusterConfig for files below a mount point. It
// returns nil when they are not there.
func hostProcessConfig(mountPoint string) (*rest.Config, error) {
	if mountPoint == "" {
		return nil, nil
	}
	dir := filepath.Join(mountPoint, filepath.FromSlash(serviceAccountDir))
	tokenFile, caFile := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	token, err := os.ReadFile(tokenFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if _, err := cert.NewPool(caFile); err != nil {
		return nil, err // without it no server could be trusted
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, rest.ErrNotInCluster
	}
	return &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, port),
		TLSClientConfig: rest.TLSClientConfig{CAFile: caFile},
		BearerToken:     string(token),
		BearerTokenFile: tokenFile, // read again when the kubelet has a new one
	}, nil
}

// ClusterSource reads a live cluster: all pods, namespaces and policies, and
// the Node called node, with "" all Nodes. It only lists and watches, and asks which kinds
// the server has.
func ClusterSource(cfg *rest.Config, node string) (Source, error) {
	var failed error
	client := func(gv schema.GroupVersion, add func(*runtime.Scheme) error) *rest.RESTClient {
		c, err := Client(cfg, gv, add)
		failed = errors.Join(failed, err)
		return c
	}
	core := func(types ...runtime.Object) *rest.RESTClient {
		return client(corev1.SchemeGroupVersion, addOnly(corev1.SchemeGroupVersion, types...))
	}
	pods, namespaces, nodes := core(&corev1.Pod{}, &corev1.PodList{}), core(&corev1.Namespace{}, &corev1.NamespaceList{}), core(&corev1.Node{}, &corev1.NodeList{})
	policies := client(networkingv1.SchemeGroupVersion, addOnly(networkingv1.SchemeGroupVersion, &networkingv1.NetworkPolicy{}, &networkingv1.NetworkPolicyList{}))
	clusters := client(clusterVersion, addLightClusters)
	if failed != nil {
		return Source{}, failed
	}
	selected := fields.Everything()
	if node != "" {
		selected = fields.OneTermEqualSelector("metadata.name", node)
	}
	all := func(c *rest.RESTClient, resource string, selector fields.Selector) cache.ListerWatcher {
		return cache.NewListWatchFromClient(c, resource, corev1.NamespaceAll, selector)
	}
	return Source{
		Pods:       newItemSource(pods, podItems),
		Namespaces: all(namespaces, "namespaces", fields.Everything()),
		Policies:   newItemSource(policies, policyItems),
		Nodes:      all(nodes, "nodes", selected),

		ClusterPolicies: newClusterSource(clusters),
		AllNodes:        all(nodes, "nodes", fields.Everything()),
	}, nil
}

// addOnly returns a function that registers only these types of a group. A client with it
// fails to decode a response of any other kind; with all types registered, such a response could
// pass as an empty list.
func addOnly(gv schema.GroupVersion, types ...runtime.Object) func(*runtime.Scheme) error {
	return func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(gv, types...)
		metav1.AddToGroupVersion(scheme, gv)
		return nil
	}
}

// Client returns a client for one group of the API, whose types add registers. The client has no
// rate limit, and limits how long it waits for the server (see impatient). Client sends no request.
func Client(cfg *rest.Config, gv schema.GroupVersion, add func(*runtime.Scheme) error) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		return nil, fmt.Errorf("register API types of %s: %w", gv, err)
	}
	c := rest.CopyConfig(cfg)
	c.APIPath = "/apis"
	if gv.Group == "" {
		c.APIPath = "/api"
	}
	c.GroupVersion = &gv
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c.WarningHandlerWithContext = rest.NoWarnings{}
	c.Wrap(newImpatient)
	c.QPS = -1 // a few lists and watches with a backoff each; what writes has its own limit
	return rest.RESTClientFor(c)
}

// These limits bound the delays that an API server, or a proxy in front of it, can cause. It can
// send a Retry-After of an hour, or never answer. client-go honors any Retry-After. The informer
// ends a watch that is over its time.
const (
	maxRetryAfter = 30 * time.Second // a longer Retry-After is reduced to this
	headersWithin = 30 * time.Second // time from each request to the headers of its response
)

// errNoHeaders is the error of a request without response headers. It does not implement
// Timeout(), because client-go would silently retry a timeout ten times.
var errNoHeaders = fmt.Errorf("no answer within %v", headersWithin)

// impatient is a transport that enforces the limits above.
type impatient struct{ http.RoundTripper }

func newImpatient(inner http.RoundTripper) http.RoundTripper { return &impatient{inner} }

// WrappedRoundTripper returns the wrapped transport. client-go uses it to close connections.
func (i *impatient) WrappedRoundTripper() http.RoundTripper { return i.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i *impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	late := time.AfterFunc(headersWithin, func() { cancel(errNoHeaders) })
	response, err := i.RoundTripper.RoundTrip(r.WithContext(ctx))
	late.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), errNoHeaders) {
			err = errNoHeaders
		}
		cancel(nil)
		return nil, err
	}
	if after, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && after > int(maxRetryAfter.Seconds()) {
		response.Header.Set("Retry-After", strconv.Itoa(int(maxRetryAfter.Seconds())))
	}
	response.Body = &cancelingBody{response.Body, func() { cancel(nil) }}
	return response, nil
}

// cancelingBody is the body of a response. Its Close releases what the request holds.
type cancelingBody struct {
	io.ReadCloser
	cancel func()
}

// Close implements io.Closer.
func (b *cancelingBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

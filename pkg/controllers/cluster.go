package controllers

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

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

// RESTConfig reads a kubeconfig file. For "" it reads the configuration that a pod finds in its
// container. It sends no request.
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

// mountPointEnv is the environment variable with the directory where containerd puts the files of a
// HostProcess container. With containerd 1.6 and older, volumes are only there: such a container
// sees the file system of the host, so the usual path would lead to files of the host
// (kubernetes.io, "Create a Windows HostProcess Pod").
const mountPointEnv = "CONTAINER_SANDBOX_MOUNT_POINT"

// serviceAccountDir is the path of a pod's credentials, relative to the root.
const serviceAccountDir = "var/run/secrets/kubernetes.io/serviceaccount"

// hostProcessConfig is rest.InClusterConfig for files below a mount point. It returns nil if there
// are no such files.
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
		return nil, err // the agent could trust no server
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

// ClusterSource returns the Source of a live cluster, with the Node called node in Nodes, or all
// Nodes for "". It only lists, watches, and asks which kinds the server has.
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

// addOnly returns a function that registers only these types of a group. A client with these types
// fails to decode a response of any other kind. With all types registered, such a response could be
// taken for an empty list.
func addOnly(gv schema.GroupVersion, types ...runtime.Object) func(*runtime.Scheme) error {
	return func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(gv, types...)
		metav1.AddToGroupVersion(scheme, gv)
		return nil
	}
}

// Client returns a client for one group of the API, whose types add registers. The client has no
// rate limit, and waits for the server until the context of a request ends. Client sends no request.
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
	c.QPS = -1 // the informers have backoffs, and the Recorder has its own limit
	return rest.RESTClientFor(c)
}

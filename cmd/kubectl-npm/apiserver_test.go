package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// apiServer is a fake API server with pods and port-forwards to stand-ins for agents. Its fields are set before the first request.
type apiServer struct {
	Pods     []corev1.Pod
	Services []corev1.Service
	Nodes    []corev1.Node
	Policies []networkingv1.NetworkPolicy
	// Backends are the host:port behind the port-forwards to a pod, by
	// "namespace/name:port".
	Backends map[string]string
	// Forbidden has what nobody may do, like "list pods", "create pods/portforward", or
	// "get pods x" in one namespace.
	Forbidden []string
	// NoWebSocket refuses WebSockets, as older API servers do.
	NoWebSocket bool
	// OnCall is told each request; nil: nobody is.
	OnCall func(call string)
	// Kubeconfig is a file that leads here. Its context is called test.
	Kubeconfig string

	t        testing.TB
	forwards sync.WaitGroup

	mu    sync.Mutex // guards calls
	calls []string
}

// newAPIServer starts a cluster that ends with the test.
func newAPIServer(t testing.TB) *apiServer {
	t.Helper()
	c := &apiServer{t: t, Backends: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/{resource}/{name}", c.get)
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", c.list)
	mux.HandleFunc("GET /api/v1/nodes", c.nodes)
	mux.HandleFunc("GET /apis/networking.k8s.io/v1/namespaces/{namespace}/{resource}/{name}", c.get)
	mux.HandleFunc("/api/v1/namespaces/{namespace}/pods/{name}/portforward", c.forward)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.Close()
		c.forwards.Wait() // each ends with its client's connection
	})
	c.Kubeconfig = kubeconfigOf(t, server.URL)
	return c
}

// kubeconfigOf writes a kubeconfig for a server. Its context is called test.
func kubeconfigOf(t testing.TB, server string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(`{apiVersion: v1, kind: Config, current-context: test, contexts: [{name: test, context: {cluster: a}}],
  clusters: [{name: a, cluster: {server: "`+server+`"}}]}`), 0o600))
	return file
}

// podOn returns a pod that runs on a node.
func podOn(namespace, name, node string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, do := range change {
		do(&p)
	}
	return p
}

// agentOn returns the pod of an agent, as deploy/ has it, that is ready.
func agentOn(name, node string, change ...func(*corev1.Pod)) corev1.Pod {
	return podOn("kube-system", name, node, append([]func(*corev1.Pod){func(p *corev1.Pod) {
		p.Labels = map[string]string{"k8s-app": "azure-npm"}
		p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}}, change...)...)
}

// Calls returns the requests so far, like "get pods x/web", "list kube-system win-1"
// and "websocket kube-system/npm-1:10091".
func (c *apiServer) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

func (c *apiServer) called(words ...string) {
	if c.OnCall != nil {
		c.OnCall(strings.Join(words, " "))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, strings.Join(words, " "))
}

// object is an object of the API.
type object interface {
	metav1.Object
	runtime.Object
}

// objects returns the objects of a resource, and their kind.
func (c *apiServer) objects(resource string) (all []object, kind schema.GroupVersionKind) {
	switch resource {
	case "pods":
		for i := range c.Pods {
			all = append(all, &c.Pods[i])
		}
		return all, corev1.SchemeGroupVersion.WithKind("Pod")
	case "services":
		for i := range c.Services {
			all = append(all, &c.Services[i])
		}
		return all, corev1.SchemeGroupVersion.WithKind("Service")
	}
	for i := range c.Policies {
		all = append(all, &c.Policies[i])
	}
	return all, networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")
}

func (c *apiServer) get(w http.ResponseWriter, r *http.Request) {
	resource := r.PathValue("resource")
	c.called("get", resource, podName(r))
	if c.forbids(w, "get", resource, r.PathValue("namespace")) {
		return
	}
	if o := c.find(w, r, resource); o != nil {
		c.write(w, http.StatusOK, o)
	}
}

// find returns a copy of the object that a request names, or says that there is none.
func (c *apiServer) find(w http.ResponseWriter, r *http.Request, resource string) runtime.Object {
	all, kind := c.objects(resource)
	for _, o := range all {
		if o.GetNamespace()+"/"+o.GetName() == podName(r) {
			found := o.DeepCopyObject()
			found.GetObjectKind().SetGroupVersionKind(kind)
			return found
		}
	}
	c.refuse(w, apierrors.NewNotFound(schema.GroupResource{Resource: resource}, r.PathValue("name")))
	return nil
}

func (c *apiServer) nodes(w http.ResponseWriter, _ *http.Request) {
	c.called("list nodes")
	if !c.forbids(w, "list", "nodes", "") {
		c.write(w, http.StatusOK, corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: c.Nodes})
	}
}

func (c *apiServer) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	withLabels, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		c.refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	on, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		c.refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	node, _ := on.RequiresExactMatch("spec.nodeName")
	c.called("list", r.PathValue("namespace"), node)
	if c.forbids(w, "list", "pods", r.PathValue("namespace")) {
		return
	}
	found := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, p := range c.Pods {
		if p.Namespace == r.PathValue("namespace") && withLabels.Matches(labels.Set(p.Labels)) && on.Matches(fields.Set{"spec.nodeName": p.Spec.NodeName}) {
			found.Items = append(found.Items, p)
		}
	}
	c.write(w, http.StatusOK, found)
}

func podName(r *http.Request) string { return r.PathValue("namespace") + "/" + r.PathValue("name") }

// forbids reports whether nobody may do this, and then says so.
func (c *apiServer) forbids(w http.ResponseWriter, verb, resource, namespace string) bool {
	if !slices.Contains(c.Forbidden, verb+" "+resource) && !slices.Contains(c.Forbidden, verb+" "+resource+" "+namespace) {
		return false
	}
	c.refuse(w, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", fmt.Errorf("nobody may %s them", verb)))
	return true
}

func (c *apiServer) refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	err.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	c.write(w, int(err.ErrStatus.Code), err.ErrStatus)
}

func (c *apiServer) write(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		c.t.Errorf("fake API server: %v", err)
	}
}

// Package agents finds the agents of a cluster and sends requests to their HTTP endpoints through the API
// server, like kubectl port-forward. It needs no network access to the nodes, and uses the rights of the
// user.
package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// The defaults match the manifests in deploy/.
const (
	DefaultNamespace = "kube-system"
	DefaultSelector  = "k8s-app=azure-npm"
	DefaultPort      = 10091
)

// ErrNoAgent means that a node has no agent, which is normal for a node that does not run Windows.
var ErrNoAgent = errors.New("no agent")

// Cluster finds and asks the agents of a cluster.
type Cluster struct {
	api       *rest.Config
	core      *rest.RESTClient
	namespace string
	selector  labels.Selector
}

// New returns the cluster of an API server. Its agents are the pods in a namespace that a label selector
// selects.
func New(api *rest.Config, namespace, selector string) (*Cluster, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return nil, fmt.Errorf("selector %q: %w", selector, err)
	}
	core, err := client(api, "/api", corev1.SchemeGroupVersion, corev1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Cluster{api: api, core: core, namespace: namespace, selector: parsed}, nil
}

// client returns a client for one group of the API, whose types add registers.
func client(api *rest.Config, path string, of schema.GroupVersion, add func(*runtime.Scheme) error) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		return nil, err
	}
	c := rest.CopyConfig(api)
	c.APIPath, c.GroupVersion, c.QPS = path, &of, -1
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.WarningHandlerWithContext = rest.NoWarnings{}
	return rest.RESTClientFor(c)
}

// get reads an object of a namespace into out. Errors call the object what. It returns false if the object
// does not exist.
func get(ctx context.Context, api *rest.RESTClient, resource, namespace, name, what string, out runtime.Object) (bool, error) {
	err := api.Get().Namespace(namespace).Resource(resource).Name(name).Do(ctx).Into(out)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for %s: %w", what, advise(err))
	}
	return true, nil
}

// NodeOf returns the node of a pod, which is given as namespace/name.
func (c *Cluster) NodeOf(ctx context.Context, pod string) (node string, err error) {
	namespace, name, _ := strings.Cut(pod, "/")
	var p corev1.Pod
	switch found, err := get(ctx, c.core, "pods", namespace, name, "the node of "+pod, &p); {
	case err != nil:
		return "", err
	case !found:
		return "", fmt.Errorf("there is no pod %s in the cluster", pod)
	case p.Spec.NodeName == "":
		return "", fmt.Errorf("%s is on no node yet: kubectl -n %s describe pod %s says why", pod, namespace, name)
	}
	return p.Spec.NodeName, nil
}

// Pods returns the pods of a namespace.
func (c *Cluster) Pods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.core.Get().Namespace(namespace).Resource("pods").Do(ctx).Into(&pods); err != nil {
		return nil, fmt.Errorf("looking for pods of namespace %s: %w", namespace, advise(err))
	}
	return pods.Items, nil
}

// Service returns a Service, or nil if it does not exist.
func (c *Cluster) Service(ctx context.Context, namespace, name string) (*corev1.Service, error) {
	var svc corev1.Service
	found, err := get(ctx, c.core, "services", namespace, name, "service "+namespace+"/"+name, &svc)
	if !found {
		return nil, err
	}
	return &svc, nil
}

// Agent is the agent's pod on a node.
type Agent struct {
	Node      string
	Namespace string
	Name      string
	Port      uint16 // of its HTTP endpoint
	Ready     bool
}

func (a Agent) String() string { return a.Namespace + "/" + a.Name }

// Words returns the agent and its node for messages.
func (a Agent) Words() string { return fmt.Sprintf("the agent %s on %s", a, a.Node) }

// Find returns the agent of a node, the newest running one. It fails with ErrNoAgent if the node has none.
func (c *Cluster) Find(ctx context.Context, node string) (Agent, error) {
	var pods corev1.PodList
	err := c.core.Get().Namespace(c.namespace).Resource("pods").
		Param("labelSelector", c.selector.String()).
		Param("fieldSelector", fields.OneTermEqualSelector("spec.nodeName", node).String()).
		Do(ctx).Into(&pods)
	if err != nil {
		return Agent{}, fmt.Errorf("looking for the agent on node %s: %w", node, advise(err))
	}
	return choose(slices.DeleteFunc(pods.Items, onLinux), node)
}

// choose returns the newest running pod as the agent of a node.
func choose(found []corev1.Pod, node string) (Agent, error) {
	slices.SortFunc(found, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	if len(found) == 0 {
		return Agent{}, fmt.Errorf("%w on node %s", ErrNoAgent, node)
	}
	i := slices.IndexFunc(found, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if i < 0 {
		p := found[0]
		return Agent{}, fmt.Errorf("the agent %s/%s on node %s does not run (%s): kubectl -n %s describe pod %s says why",
			p.Namespace, p.Name, node, cmp.Or(p.Status.Phase, corev1.PodUnknown), p.Namespace, p.Name)
	}
	p := found[i]
	return Agent{Node: node, Namespace: p.Namespace, Name: p.Name, Port: port(p), Ready: ready(p.Status)}, nil
}

// onLinux reports whether a pod is one of Azure NPM on a Linux node; these have the same labels.
func onLinux(p corev1.Pod) bool {
	return p.Spec.OS != nil && p.Spec.OS.Name == corev1.Linux || p.Spec.NodeSelector[corev1.LabelOSStable] == string(corev1.Linux)
}

// PortAnnotation is the annotation of an agent's pod with the port of its HTTP endpoint.
const PortAnnotation = "azure.npm/port"

// port returns the port of the agent's HTTP endpoint: the value of PortAnnotation, or else
// DefaultPort.
func port(p corev1.Pod) uint16 {
	if number, err := strconv.ParseUint(p.Annotations[PortAnnotation], 10, 16); err == nil && number > 0 {
		return uint16(number)
	}
	return DefaultPort
}

func ready(status corev1.PodStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// advise adds advice to an error of the API server.
func advise(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; deploy/trace has the rights that it takes", err)
	}
	return err
}

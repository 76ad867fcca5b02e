package scale

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/desired"
)

// nodeName is the node that local pods are scheduled to.
const nodeName = "n1"

// source is a world as its API server sends it: pods one by one in a stream,
// each decoded from protobuf, so that no two share a string.
func (w *world) source() (controllers.Source, *podStream) {
	var namespaces corev1.NamespaceList
	for _, ns := range w.namespaces {
		namespaces.Items = append(namespaces.Items, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name, Labels: ns.Labels}})
	}
	var policies networkingv1.NetworkPolicyList
	for _, np := range w.policies {
		policies.Items = append(policies.Items, *np)
	}
	nodes := corev1.NodeList{Items: []corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddr}}},
	}}}
	pods := &podStream{world: w, events: make(chan watch.Event)}
	return controllers.Source{
		Pods: pods, Namespaces: fixed{&namespaces}, Policies: fixed{&policies}, Nodes: fixed{&nodes},
	}, pods
}

// fixed is a list that never changes.
type fixed struct{ list runtime.Object }

// IsWatchListSemanticsUnSupported makes the reflector ask for a list.
func (f fixed) IsWatchListSemanticsUnSupported() bool { return true }

// List implements cache.Lister.
func (f fixed) List(metav1.ListOptions) (runtime.Object, error) { return f.list.DeepCopyObject(), nil }

// Watch implements cache.Watcher.
func (f fixed) Watch(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }

// podStream is the list and watch of pods.
type podStream struct {
	world  *world
	events chan watch.Event // after the initial ones
}

// List implements cache.Lister. The reflector streams instead.
func (s *podStream) List(metav1.ListOptions) (runtime.Object, error) {
	return nil, fmt.Errorf("pods come in a stream")
}

// Watch implements cache.Watcher.
func (s *podStream) Watch(o metav1.ListOptions) (watch.Interface, error) {
	w := &podWatch{out: make(chan watch.Event), stop: make(chan struct{})}
	go w.run(s, o.SendInitialEvents != nil && *o.SendInitialEvents)
	return w, nil
}

type podWatch struct {
	out  chan watch.Event
	stop chan struct{}
	once sync.Once
}

// ResultChan implements watch.Interface.
func (w *podWatch) ResultChan() <-chan watch.Event { return w.out }

// Stop implements watch.Interface.
func (w *podWatch) Stop() { w.once.Do(func() { close(w.stop) }) }

func (w *podWatch) run(s *podStream, initial bool) {
	defer close(w.out)
	if initial {
		for _, p := range s.world.pods {
			if !w.send(watch.Event{Type: watch.Added, Object: decode(encode(p, 1))}) {
				return
			}
		}
		end := &corev1.Pod{}
		end.ResourceVersion = "1"
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		if !w.send(watch.Event{Type: watch.Bookmark, Object: end}) {
			return
		}
	}
	for {
		select {
		case e := <-s.events:
			if !w.send(e) {
				return
			}
		case <-w.stop:
			return
		}
	}
}

func (w *podWatch) send(e watch.Event) bool {
	select {
	case w.out <- e:
		return true
	case <-w.stop:
		return false
	}
}

// encode returns a pod as the API server sends it, of a usual size.
func encode(p desired.Pod, version int) []byte {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: strconv.Itoa(version), Labels: p.Labels,
			CreationTimestamp: metav1.Time{Time: start}, Annotations: map[string]string{"checksum/config": fmt.Sprintf("%064x", version)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "workload", UID: p.UID}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", FieldsV1: metav1.NewFieldsV1(strings.Repeat("f", 900))},
				{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat("f", 900))},
			},
		},
		Spec: corev1.PodSpec{
			NodeName: "another-node", ServiceAccountName: "default",
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
				{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
			},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: p.Addr.String(), PodIPs: []corev1.PodIP{{IP: p.Addr.String()}},
			HostIP: nodeAddr, StartTime: &metav1.Time{Time: start},
		},
	}
	if p.Local {
		pod.Spec.NodeName = nodeName
	}
	for _, condition := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: start.Add(time.Minute)},
		})
	}
	for _, name := range []string{"main", "proxy"} {
		c := corev1.Container{
			Name: name, Image: "registry.example.com/team/" + name + ":v1.2.3",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "config", MountPath: "/etc/config"}, {Name: "kube-api-access", MountPath: "/var/run/secrets"},
			},
		}
		for i := range 5 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: "some-value"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, Ready: true, Image: c.Image, ImageID: c.Image})
	}
	for _, port := range p.Ports {
		pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{
			Name: port.Name, Protocol: corev1.Protocol(port.Protocol), ContainerPort: int32(port.Number),
		})
	}
	out, err := pod.Marshal()
	if err != nil {
		panic("BUG: a pod always encodes: " + err.Error())
	}
	return out
}

func decode(encoded []byte) *corev1.Pod {
	pod := &corev1.Pod{}
	if err := pod.Unmarshal(encoded); err != nil {
		panic("BUG: an encoded pod decodes: " + err.Error())
	}
	return pod
}

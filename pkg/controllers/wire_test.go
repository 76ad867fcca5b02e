package controllers

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// fleet describes pods as a cluster has them: a few thousand workloads whose
// pods share their labels, and everything else that an API server sends along.
type fleet struct{ pods, workloads int }

// template returns a pod whose name, address and labels pod fills in.
func (f fleet) template() *corev1.Pod {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	fields := metav1.NewFieldsV1(`{"f:metadata":{` + strings.Repeat(`"f:labels":{".":{},"f:app":{}},`, 20) + `"f:name":{}}}`)
	container := corev1.Container{
		Name: "main", Image: "registry.example.com/team/service@sha256:" + strings.Repeat("0", 64),
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}, {Name: "metrics", ContainerPort: 9090, Protocol: corev1.ProtocolTCP}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/config"}, {Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		},
		LivenessProbe: &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 3},
	}
	for i := range 10 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: "some value that is set"})
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{}, CreationTimestamp: now, ResourceVersion: "1000000",
			Annotations:     map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-02T03:04:05Z", "checksum/config": strings.Repeat("0", 64)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "service-0123456789", UID: "00000000-0000-0000-0000-000000000000"}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: fields},
				{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: fields},
			},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-000", ServiceAccountName: "default", SchedulerName: "default-scheduler",
			Containers: []corev1.Container{container},
			Volumes:    []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: &now, PodIPs: []corev1.PodIP{{}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true, Image: container.Image, ImageID: container.Image}},
		},
	}
	for _, c := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: "True", LastTransitionTime: now})
	}
	return p
}

// pod makes a template the i-th pod. All are of one size on the wire.
func (f fleet) pod(p *corev1.Pod, i int) *corev1.Pod {
	w := i % f.workloads
	p.Namespace = fmt.Sprintf("team-%02d", w%50)
	p.Name = fmt.Sprintf("service-%05d-0123456789-%06d", w, i)
	p.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
	p.Labels["app"] = fmt.Sprintf("service-%05d", w)
	p.Labels["tier"] = "backend"
	p.Labels["version"] = "v1.2.3"
	p.Labels["team"] = p.Namespace
	p.Labels["pod-template-hash"] = fmt.Sprintf("%010d", w)
	p.Status.PodIP = fmt.Sprintf("10.%03d.%03d.%03d", 100+i/10000, 100+i/100%100, 100+i%100)
	p.Status.PodIPs[0].IP = p.Status.PodIP
	return p
}

// server is an API server that has a fleet and nothing else. It makes the pods
// as it sends them.
type server struct{ fleet fleet }

func (s server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch {
	case answersNoKind(w, r):
	case query.Get("watch") == "":
		w.Header().Set("Content-Type", k8sruntime.ContentTypeProtobuf)
		s.list(w, r.URL.Path)
	default:
		w.Header().Set("Content-Type", k8sruntime.ContentTypeProtobuf+";stream=watch")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// frame writes one event of a watch.
func frame(w http.ResponseWriter, kind watch.EventType, object []byte) {
	event := metav1.WatchEvent{Type: string(kind), Object: k8sruntime.RawExtension{Raw: object}}
	body, err := event.Marshal()
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(body))))
	_, _ = w.Write(body)
}

// list writes a list of pods, an empty one for other kinds.
func (s server) list(w http.ResponseWriter, path string) {
	n, kind := 0, k8sruntime.TypeMeta{APIVersion: "v1"}
	switch path {
	case "/api/v1/pods":
		n, kind.Kind = s.fleet.pods, "PodList"
	case "/api/v1/namespaces":
		kind.Kind = "NamespaceList"
	case "/api/v1/nodes":
		kind.Kind = "NodeList"
	default:
		kind = k8sruntime.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicyList"}
	}
	p := s.fleet.template()
	item, err := s.fleet.pod(p, 0).Marshal()
	if err != nil {
		panic(err)
	}
	meta := metav1.ListMeta{ResourceVersion: "1000000"}
	head, err := meta.Marshal()
	if err != nil {
		panic(err)
	}
	field := func(number byte, size int) []byte { return binary.AppendUvarint([]byte{number<<3 | 2}, uint64(size)) }
	raw := len(field(1, len(head))) + len(head) + n*(len(field(2, len(item)))+len(item))
	types, err := kind.Marshal()
	if err != nil {
		panic(err)
	}
	for _, part := range [][]byte{[]byte("k8s\x00"), field(1, len(types)), types, field(2, raw), field(1, len(head)), head} {
		_, _ = w.Write(part)
	}
	for i := range n {
		size, err := s.fleet.pod(p, i).MarshalTo(item)
		if err != nil || size != len(item) {
			panic(fmt.Sprint("pods differ in size: ", size, err))
		}
		_, _ = w.Write(field(2, len(item)))
		_, _ = w.Write(item)
	}
}

package manifest

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What has no say in who may talk to whom, such as images and volumes, is
// checked for its type only: a pod may leave it out.

func checkPod(at place, pod *corev1.Pod) error {
	if err := checkPodSpec(at, &pod.Spec, field.NewPath("spec")); err != nil {
		return err
	}
	status := field.NewPath("status")
	if err := checkAddr(at, pod.Status.PodIP, status.Child("podIP")); err != nil {
		return err
	}
	if err := checkAddr(at, pod.Status.HostIP, status.Child("hostIP")); err != nil {
		return err
	}
	for i, ip := range pod.Status.PodIPs {
		here := status.Child("podIPs").Index(i).Child("ip")
		if ip.IP == "" {
			return at.fail(here, "is empty; give the address")
		}
		if err := checkAddr(at, ip.IP, here); err != nil {
			return err
		}
	}
	return nil
}

func checkPodSpec(at place, spec *corev1.PodSpec, path *field.Path) error {
	if spec.NodeName != "" {
		if problems := apivalidation.NameIsDNSSubdomain(spec.NodeName, false); len(problems) > 0 {
			return at.fail(path.Child("nodeName"), "%q is no node name: %s", spec.NodeName, problems[0])
		}
	}
	if err := at.refuse(metav1validation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))); err != nil {
		return err
	}
	for i := range spec.InitContainers {
		if err := checkPorts(at, spec.InitContainers[i].Ports, path.Child("initContainers").Index(i).Child("ports")); err != nil {
			return err
		}
	}
	for i := range spec.Containers {
		if err := checkPorts(at, spec.Containers[i].Ports, path.Child("containers").Index(i).Child("ports")); err != nil {
			return err
		}
	}
	return nil
}

// checkPorts checks the ports of one container and fills in their protocol.
func checkPorts(at place, ports []corev1.ContainerPort, path *field.Path) error {
	names := map[string]bool{}
	for i := range ports {
		p, here := &ports[i], path.Index(i)
		if p.Name != "" {
			if err := checkPortName(at, p.Name, here.Child("name")); err != nil {
				return err
			}
			if names[p.Name] {
				return at.fail(here.Child("name"), "%q is there twice in one container; rename one", p.Name)
			}
			names[p.Name] = true
		}
		if err := checkPortNumber(at, p.ContainerPort, here.Child("containerPort")); err != nil {
			return err
		}
		if p.HostPort != 0 {
			if err := checkPortNumber(at, p.HostPort, here.Child("hostPort")); err != nil {
				return err
			}
		}
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if err := checkProtocol(at, p.Protocol, here.Child("protocol")); err != nil {
			return err
		}
	}
	return nil
}

func checkNode(at place, node *corev1.Node) error {
	for i, a := range node.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		here := field.NewPath("status", "addresses").Index(i).Child("address")
		if a.Address == "" {
			return at.fail(here, "is empty; give the address")
		}
		if err := checkAddr(at, a.Address, here); err != nil {
			return err
		}
	}
	return nil
}

// checkAddr refuses text that is neither empty nor an IP address.
func checkAddr(at place, text string, path *field.Path) error {
	if text == "" {
		return nil
	}
	if a, err := netip.ParseAddr(text); err != nil || a.Zone() != "" || a.Is4In6() {
		return at.fail(path, "%q is not an IP address; write it like 10.224.0.7", text)
	}
	return nil
}

// checkTemplate checks what a workload makes its pods from.
func checkTemplate(at place, selector *metav1.LabelSelector, t *corev1.PodTemplateSpec, below ...string) error {
	spec := field.NewPath("spec", below...)
	path := spec.Child("template")
	if err := at.refuse(metav1validation.ValidateLabels(t.Labels, path.Child("metadata", "labels"))); err != nil {
		return err
	}
	if err := checkPodSpec(at, &t.Spec, path.Child("spec")); err != nil {
		return err
	}
	if selector == nil {
		return nil // refused by the API server, but nothing here depends on it
	}
	if err := checkSelector(at, selector, spec.Child("selector")); err != nil {
		return err
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return at.fail(spec.Child("selector"), "%v", err)
	}
	if !s.Matches(labels.Set(t.Labels)) {
		return at.fail(path.Child("metadata", "labels"), "are not selected by spec.selector (%s); make them agree", s)
	}
	return nil
}

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

// Fields that do not affect connections, such as images and volumes, are
// checked for their types only, and may be missing.

func checkPod(pod *corev1.Pod) field.ErrorList {
	status := field.NewPath("status")
	errs := checkPodSpec(&pod.Spec, field.NewPath("spec"))
	errs = append(errs, checkAddr(pod.Status.PodIP, status.Child("podIP"))...)
	errs = append(errs, checkAddr(pod.Status.HostIP, status.Child("hostIP"))...)
	for i, ip := range pod.Status.PodIPs {
		errs = append(errs, requireAddr(ip.IP, status.Child("podIPs").Index(i).Child("ip"))...)
	}
	return errs
}

func checkPodSpec(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.NodeName != "" {
		for _, problem := range apivalidation.NameIsDNSSubdomain(spec.NodeName, false) {
			errs = append(errs, invalid(path.Child("nodeName"), "%q is no node name: %s", spec.NodeName, problem)...)
		}
	}
	errs = append(errs, metav1validation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	for i := range spec.InitContainers {
		errs = append(errs, checkPorts(spec.InitContainers[i].Ports, path.Child("initContainers").Index(i).Child("ports"))...)
	}
	for i := range spec.Containers {
		errs = append(errs, checkPorts(spec.Containers[i].Ports, path.Child("containers").Index(i).Child("ports"))...)
	}
	return errs
}

// checkPorts checks the ports of one container and fills in their protocol.
func checkPorts(ports []corev1.ContainerPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range ports {
		p, here := &ports[i], path.Index(i)
		if p.Name != "" {
			errs = append(errs, checkPortName(p.Name, here.Child("name"))...)
			if names[p.Name] {
				errs = append(errs, invalid(here.Child("name"), "%q is there twice in one container; rename one", p.Name)...)
			}
			names[p.Name] = true
		}
		errs = append(errs, checkPortNumber(p.ContainerPort, here.Child("containerPort"))...)
		if p.HostPort != 0 {
			errs = append(errs, checkPortNumber(p.HostPort, here.Child("hostPort"))...)
		}
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		errs = append(errs, checkProtocol(p.Protocol, here.Child("protocol"))...)
	}
	return errs
}

func checkNode(node *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	for i, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			errs = append(errs, requireAddr(a.Address, field.NewPath("status", "addresses").Index(i).Child("address"))...)
		}
	}
	return errs
}

func requireAddr(text string, path *field.Path) field.ErrorList {
	if text == "" {
		return invalid(path, "is empty; give the address")
	}
	return checkAddr(text, path)
}

// checkAddr returns an error about text that is neither empty nor an IP address.
func checkAddr(text string, path *field.Path) field.ErrorList {
	if text == "" {
		return nil
	}
	if a, err := netip.ParseAddr(text); err != nil || a.Zone() != "" || a.Is4In6() {
		return invalid(path, "%q is not an IP address; write it like 10.224.0.7", text)
	}
	return nil
}

// checkTemplate checks the pod template of a workload. spec is the path of the fields template and
// selector.
func checkTemplate(selector *metav1.LabelSelector, t *corev1.PodTemplateSpec, spec *field.Path) field.ErrorList {
	path := spec.Child("template")
	errs := metav1validation.ValidateLabels(t.Labels, path.Child("metadata", "labels"))
	errs = append(errs, checkPodSpec(&t.Spec, path.Child("spec"))...)
	errs = append(errs, checkSelector(selector, spec.Child("selector"))...)
	if selector == nil || len(errs) > 0 {
		return errs // the API server refuses a missing selector, but nothing here depends on it
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	switch {
	case err != nil:
		return invalid(spec.Child("selector"), "%v", err)
	case !s.Matches(labels.Set(t.Labels)):
		return invalid(path.Child("metadata", "labels"), "are not selected by spec.selector (%s); make them agree", s)
	}
	return nil
}

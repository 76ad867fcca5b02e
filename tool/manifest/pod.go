package manifest

import (
	"cmp"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Fields that do not affect connections, such as images, volumes, host ports and the selectors of
// workloads, are checked for their types only, and may be missing.

func checkPod(pod *corev1.Pod) field.ErrorList {
	status := field.NewPath("status")
	errs := checkPodSpec(&pod.Spec, field.NewPath("spec"))
	if ip := pod.Status.PodIP; ip != "" {
		errs = append(errs, checkAddr(ip, status.Child("podIP"))...)
	}
	if ip := pod.Status.HostIP; ip != "" {
		errs = append(errs, checkAddr(ip, status.Child("hostIP"))...)
	}
	for i, ip := range pod.Status.PodIPs {
		errs = append(errs, checkAddr(ip.IP, status.Child("podIPs").Index(i).Child("ip"))...)
	}
	return errs
}

// checkPodSpec checks the ports of the containers, and fills in their protocol.
func checkPodSpec(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(name string, containers []corev1.Container) {
		for i := range containers {
			for k := range containers[i].Ports {
				p, at := &containers[i].Ports[k], path.Child(name).Index(i).Child("ports").Index(k)
				if p.Name != "" {
					errs = append(errs, checkPortName(p.Name, at.Child("name"))...)
				}
				errs = append(errs, checkPortNumber(p.ContainerPort, at.Child("containerPort"))...)
				p.Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
				errs = append(errs, checkProtocol(p.Protocol, at.Child("protocol"))...)
			}
		}
	}
	check("initContainers", spec.InitContainers)
	check("containers", spec.Containers)
	return errs
}

func checkNode(node *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	for i, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			errs = append(errs, checkAddr(a.Address, field.NewPath("status", "addresses").Index(i).Child("address"))...)
		}
	}
	return errs
}

func checkAddr(text string, path *field.Path) field.ErrorList {
	if a, err := netip.ParseAddr(text); err != nil || a.Zone() != "" || a.Is4In6() {
		return invalid(path, "%q is not an IP address; write it like 10.224.0.7", text)
	}
	return nil
}

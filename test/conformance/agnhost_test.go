package conformance

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/match"
)

// command is what is to run in a container.
type command struct {
	namespace, pod, container string
	args                      []string
}

// protocols are the numbers of what "agnhost connect" can speak.
var protocols = map[string]uint8{"tcp": 6, "udp": 17, "sctp": 132}

// run does what the container's program would do: agnhost connect says nothing when it
// has connected, and otherwise one word on standard error, with exit code 1. It fails
// when the harness cannot tell.
func (c *cluster) run(ctx context.Context, cmd command) (stderr string, code int, err error) {
	if len(cmd.args) < 2 || cmd.args[0] != "/agnhost" || cmd.args[1] != "connect" {
		return "", 0, fmt.Errorf("no program for %q", cmd.args)
	}
	protocol, target := "tcp", ""
	for _, arg := range cmd.args[2:] {
		switch name, value, _ := strings.Cut(arg, "="); {
		case name == "--protocol":
			protocol = value
		case name == "--timeout": // what is dropped stays so
		case strings.HasPrefix(arg, "-") || target != "":
			return "", 0, fmt.Errorf("agnhost connect does not know %q here", arg)
		default:
			target = arg
		}
	}
	to, err := netip.ParseAddrPort(target)
	if err != nil {
		return "", 0, err
	}
	number, known := protocols[protocol]
	if !known {
		return "", 0, fmt.Errorf("agnhost connect with protocol %q", protocol)
	}
	if err := c.settled(ctx); err != nil {
		return "", 0, err
	}
	from, err := kube.CoreV1().Pods(cmd.namespace).Get(ctx, cmd.pod, metav1.GetOptions{})
	if err != nil {
		return "", 0, err
	}
	if !slices.ContainsFunc(from.Spec.Containers, func(in corev1.Container) bool { return in.Name == cmd.container }) {
		return "", 0, fmt.Errorf("pod %s/%s has no container %s", cmd.namespace, cmd.pod, cmd.container)
	}
	word, err := c.connect(ctx, from, number, to)
	if word == "" {
		return "", 0, err
	}
	return word + "\n", 1, err
}

// connect returns what comes of a connection: "" when it is there, "TIMEOUT" when the
// switch of one of the nodes drops it, "REFUSED" when nobody listens.
func (c *cluster) connect(ctx context.Context, from *corev1.Pod, protocol uint8, to netip.AddrPort) (string, error) {
	there, err := kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("status.podIP", to.Addr().String()).String()})
	if err != nil {
		return "", err
	}
	src, err := netip.ParseAddr(from.Status.PodIP)
	if err != nil {
		return "", err
	}
	p := match.Packet{Src: src, Dst: to.Addr(), Protocol: protocol, DstPort: to.Port()}
	if p.Src != p.Dst { // what a pod says to itself meets no switch
		allowed, err := c.filter(from, hns.Out, p)
		if !allowed || err != nil {
			return "TIMEOUT", err
		}
		for i := range there.Items {
			if allowed, err := c.filter(&there.Items[i], hns.In, p); !allowed || err != nil {
				return "TIMEOUT", err
			}
		}
	}
	switch {
	case len(there.Items) == 0:
		return "TIMEOUT", nil // nobody has the address
	case !slices.ContainsFunc(there.Items, func(pod corev1.Pod) bool { return listens(&pod, protocol, to.Port()) }):
		return "REFUSED", nil
	}
	return "", nil
}

// filter asks the switch of a pod's node. A pod in the network of its host has none.
func (c *cluster) filter(pod *corev1.Pod, dir hns.DirectionType, p match.Packet) (bool, error) {
	if pod.Spec.HostNetwork {
		return true, nil
	}
	verdict, err := c.agents[pod.Spec.NodeName].sim.Trace(string(pod.UID), dir, p)
	if err != nil {
		return false, fmt.Errorf("%s at %s/%s: %w", dir, pod.Namespace, pod.Name, err)
	}
	var rules []string
	for _, acl := range verdict.Matched {
		rules = append(rules, fmt.Sprint(acl.Priority, " ", acl.Action, " ", acl.ID))
	}
	c.log(fmt.Sprintf("%s at %s, %v to %v, protocol %d, port %d", dir, pod.Name, p.Src, p.Dst, p.Protocol, p.DstPort),
		fmt.Sprintf("allowed is %v, by %q", verdict.Allowed, rules))
	return verdict.Allowed, nil
}

// log writes down a verdict that is not what it was.
func (c *cluster) log(question, verdict string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.verdicts[question] != verdict {
		c.verdicts[question] = verdict
		c.t.Logf("%s: %s", question, verdict)
	}
}

// Servers of agnhost say their port in the command or in the environment.
var (
	hostname = regexp.MustCompile(`/agnhost serve-hostname --(tcp|udp) --http=false --port (\d+)`)
	netexec  = regexp.MustCompile(`/agnhost netexec --http-port (\d+) --udp-port (\d+)`)
	porter   = regexp.MustCompile(`^SERVE_(SCTP)_PORT_(\d+)$`)
)

// listens reports whether a container of a pod serves a port.
func listens(pod *corev1.Pod, protocol uint8, port uint16) bool {
	number := fmt.Sprint(port)
	serves := func(name, at string) bool { return protocols[strings.ToLower(name)] == protocol && at == number }
	for _, in := range pod.Spec.Containers {
		text := strings.Join(in.Command, " ")
		if m := hostname.FindStringSubmatch(text); m != nil && serves(m[1], m[2]) {
			return true
		}
		if m := netexec.FindStringSubmatch(text); m != nil && (serves("tcp", m[1]) || serves("udp", m[2])) {
			return true
		}
		for _, v := range in.Env {
			if m := porter.FindStringSubmatch(v.Name); m != nil && serves(m[1], m[2]) {
				return true
			}
		}
	}
	return false
}

package torture

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/cnis"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// step is one thing that happens.
type step struct {
	do     action
	events []event    // of a transaction
	id     string     // of an endpoint
	addr   netip.Addr // of an endpoint
	bare   bool       // the CNI puts nothing on it
	wait   time.Duration
	what   string        // somebody else's hand does
	by     func(*replay) // whoever does it
}

// newEndpoint is the endpoint of a step that makes one.
func (s step) newEndpoint() hnssim.NewEndpoint {
	e := hnssim.NewEndpoint{ID: s.id, Addrs: []netip.Addr{s.addr}}
	if s.bare {
		e.Policies = []hns.EndpointPolicy{}
	}
	return e
}

type action string

const (
	apply      action = "apply" // one transaction
	settle     action = "settle"
	wait       action = "wait"
	observe    action = "observe" // the reconciler's round
	hand       action = "hand"    // somebody else's
	restart    action = "restart"
	stop       action = "stop"    // no process runs until the next step is over
	left       action = "left"    // by Azure NPM
	inherit    action = "inherit" // the node as Azure NPM left it
	endpoint   action = "endpoint"
	noEndpoint action = "no-endpoint"
)

func (s step) String() string {
	switch s.do {
	case apply, inherit:
		texts := make([]string, len(s.events))
		for i, e := range s.events {
			texts[i] = e.text
		}
		return string(s.do) + ": " + strings.Join(texts, "; ")
	case endpoint, noEndpoint:
		return fmt.Sprintf("%s %s %v", s.do, s.id, s.addr)
	case wait:
		return fmt.Sprintf("wait %s", s.wait)
	case hand:
		return fmt.Sprintf("hand %s: %s", s.what, s.id)
	case left:
		return "left " + s.id
	case settle, observe, restart, stop:
	}
	return string(s.do)
}

// usualBatch is how many ACLs an Add takes unless a scenario says otherwise.
const usualBatch = 30

// scenario is a start, which nothing disturbs, and what happens then.
type scenario struct {
	name    string
	given   []step
	steps   []step
	packets map[netip.Addr][]packet // by the address of the endpoint that they are asked at
	batch   int                     // ACLs per Add
	splits  bool                    // the size splits changes of single objects
	grace   time.Duration
	blind   bool // nothing is asked during the given part
	memo    memo
	cni     cnis.CNI // of the node
}

// port is what packets are sent to.
type port struct {
	protocol uint8
	number   uint16
}

// stranger is no pod's address.
var stranger = netip.MustParseAddr("10.9.9.9")

// ask fills in the packets: every ordered pair of addresses, to every port, at
// both ends.
func (sc *scenario) ask(addrs []netip.Addr, ports []port) {
	sc.packets = map[netip.Addr][]packet{}
	addrs = slices.Compact(slices.SortedFunc(slices.Values(append(slices.Clone(addrs), stranger)), netip.Addr.Compare))
	for _, src := range addrs {
		for _, dst := range addrs {
			if src == dst {
				continue
			}
			for _, p := range ports {
				sent := hnssim.Packet{Src: src, Dst: dst, Protocol: p.protocol, DstPort: p.number}
				sc.packets[src] = append(sc.packets[src], packet{hns.Out, sent})
				sc.packets[dst] = append(sc.packets[dst], packet{hns.In, sent})
			}
		}
	}
}

// parser reads the text of one scenario; README.md says how it is written.
type parser struct {
	sc     *scenario
	begun  bool // the given part is over
	rev    int
	events []event
	born   map[types.UID]metav1.Time
	addrs  []netip.Addr
	ports  []port
	azure  bool // Azure NPM was here
}

func parse(name, text string) (*scenario, error) {
	p := &parser{
		sc: &scenario{name: name, memo: newMemo(), cni: cnis.All()[0], batch: usualBatch}, born: map[types.UID]metav1.Time{},
		ports: []port{{6, 80}, {6, 81}},
	}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if err := p.line(strings.TrimSpace(line), fields); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, i+1, err)
		}
	}
	if len(p.events) > 0 || !p.begun {
		return nil, fmt.Errorf("%s: events without apply, or no start", name)
	}
	p.sc.ask(p.addrs, p.ports)
	return p.sc, nil
}

// add appends a step to the part that is being read.
func (p *parser) add(s step) {
	if p.begun {
		p.sc.steps = append(p.sc.steps, s)
	} else {
		p.sc.given = append(p.sc.given, s)
	}
}

func (p *parser) line(line string, fields []string) (err error) {
	args := fields[1:]
	switch action(fields[0]) {
	case apply:
		p.add(step{do: apply, events: p.events})
		p.events = nil
		return nil
	case settle, observe, restart, stop:
		p.add(step{do: action(fields[0])})
		return nil
	case wait:
		s := step{do: wait}
		s.wait, err = time.ParseDuration(args[0])
		p.add(s)
		return err
	case endpoint:
		s := step{do: endpoint, id: args[0], addr: p.address(args[1]), bare: len(args) > 2}
		p.add(s)
		return nil
	case noEndpoint:
		p.add(step{do: noEndpoint, id: args[0]})
		return nil
	case hand:
		s := step{do: hand}
		s.what, s.id, _ = strings.Cut(strings.TrimPrefix(line, "hand "), ":")
		s.id = strings.TrimSpace(s.id)
		s.by, err = handNamed(s.what, s.id)
		p.add(s)
		return err
	case left:
		return p.left(args)
	case inherit: // start does it
	}
	switch fields[0] {
	case "start":
		p.start()
	case "azure-npm":
		p.azure = true
	case "ports":
		p.ports = nil
		for _, arg := range args {
			number, proto, _ := strings.Cut(arg, "/")
			n, err := strconv.ParseUint(number, 10, 16)
			if err != nil {
				return err
			}
			p.ports = append(p.ports, port{map[string]uint8{"": 6, "UDP": 17, "SCTP": 132}[proto], uint16(n)})
		}
	case "batch":
		p.sc.batch, err = strconv.Atoi(args[0])
		p.sc.splits = len(args) > 1
	case "grace":
		p.sc.grace, err = time.ParseDuration(args[0])
	default:
		var e event
		if e, err = p.event(line, fields); err == nil {
			p.events = append(p.events, e)
		}
	}
	return err
}

// start ends the given part.
func (p *parser) start() {
	if p.azure {
		p.add(step{do: inherit, events: p.events})
	} else {
		if len(p.events) > 0 {
			p.add(step{do: apply, events: p.events})
		}
		p.add(step{do: settle})
	}
	p.events, p.begun = nil, true
}

func (p *parser) event(line string, fields []string) (event, error) {
	p.rev++
	e := event{text: line}
	args := fields[1:]
	ns, name, _ := strings.Cut(args[0], "/")
	switch fields[0] {
	case "delete":
		e.name = args[0] + " " + args[1]
	case "node":
		o := &object{rev: p.rev, key: "node"}
		for _, arg := range args {
			o.nodes = append(o.nodes, p.address(arg))
		}
		e.name, e.is = "node", o
	case "namespace":
		e.name = nsKey(ns)
		e.is = &object{rev: p.rev, key: e.name, ns: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: pairs(args[1:])}}}
	case "policy":
		np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		_, spec, _ := strings.Cut(line, "{")
		if err := yaml.UnmarshalStrict([]byte("{"+spec), &np.Spec); err != nil {
			return e, err
		}
		e.name = policyName(ns, name)
		e.is = &object{rev: p.rev, key: e.name, np: np}
	case "peer":
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: pairs(args[2:])}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: p.address(args[1]).String()}}
		e.name = peerName(ns)
		e.is = &object{rev: p.rev, key: e.name, peer: n}
	case "cluster":
		cnp := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		_, spec, _ := strings.Cut(line, "{")
		if err := yaml.UnmarshalStrict([]byte("{"+spec), &cnp.Spec); err != nil {
			return e, err
		}
		e.name = clusterName(ns)
		e.is = &object{rev: p.rev, key: e.name, cnp: cnp}
	case "pod":
		pod, err := p.pod(ns, name, args[1:])
		e.name = podName(ns, name)
		e.is = &object{rev: p.rev, key: e.name + "#" + string(pod.UID), pod: pod}
		return e, err
	default:
		return e, fmt.Errorf("unknown command %q", fields[0])
	}
	return e, nil
}

// pod reads ADDR|- [k=v]... [uid=U] [port=NAME:NUMBER] [started=DURATION] [remote] [host] [finished] [deleting].
func (p *parser) pod(ns, name string, args []string) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(ns + "/" + name), Labels: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if args[0] != "-" {
		pod.Status.PodIP = p.address(args[0]).String()
	}
	var started *metav1.Time
	for _, arg := range args[1:] {
		key, value, isPair := strings.Cut(arg, "=")
		switch {
		case key == "started": // after the replay began
			after, err := time.ParseDuration(value)
			if err != nil {
				return pod, err
			}
			started = &metav1.Time{Time: began.Add(after)}
		case arg == "remote":
			pod.Spec.NodeName = "elsewhere"
		case arg == "host":
			pod.Spec.HostNetwork, pod.Status.HostIP = true, pod.Status.PodIP
		case arg == "finished":
			pod.Status.Phase = corev1.PodSucceeded
		case arg == "deleting":
			pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_700_000_000, 0)}
		case key == "uid":
			pod.UID = types.UID(value)
		case key == "port":
			called, number, _ := strings.Cut(value, ":")
			n, err := strconv.ParseInt(number, 10, 32)
			if err != nil {
				return pod, err
			}
			pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{Name: called, ContainerPort: int32(n)})
		case isPair:
			pod.Labels[key] = value
		default:
			return pod, fmt.Errorf("unknown pod attribute %q", arg)
		}
	}
	born, ok := p.born[pod.UID]
	if !ok { // later lines are later pods
		born = metav1.NewTime(time.Unix(1_600_000_000+60*int64(len(p.born)), 0))
		p.born[pod.UID] = born
	}
	pod.CreationTimestamp, pod.Status.StartTime = born, cmp.Or(started, &born)
	return pod, nil
}

// address reads an address and remembers that it is to be asked about.
func (p *parser) address(text string) netip.Addr {
	addr := netip.MustParseAddr(text)
	p.addrs = append(p.addrs, addr)
	return addr
}

func pairs(args []string) map[string]string {
	out := map[string]string{}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		out[key] = value
	}
	return out
}

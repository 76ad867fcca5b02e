package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/phrase"
)

// kindWords are the kinds of ends, as kubectl calls them.
var kindWords = map[string]string{
	"pod": "Pod", "pods": "Pod", "po": "Pod",
	"deployment": "Deployment", "deployments": "Deployment", "deploy": "Deployment",
	"statefulset": "StatefulSet", "statefulsets": "StatefulSet", "sts": "StatefulSet",
	"replicaset": "ReplicaSet", "replicasets": "ReplicaSet", "rs": "ReplicaSet",
	"daemonset": "DaemonSet", "daemonsets": "DaemonSet", "ds": "DaemonSet",
	"replicationcontroller": "ReplicationController", "replicationcontrollers": "ReplicationController", "rc": "ReplicationController",
	"job": "Job", "jobs": "Job", "cronjob": "CronJob", "cronjobs": "CronJob", "cj": "CronJob",
	"service": serviceKind, "services": serviceKind, "svc": serviceKind,
}

const serviceKind = "Service"

// mostPairs is the maximum number of questions that one command line may expand to.
const mostPairs = 16

// query is a question as the user writes it: its ends may be workloads or Services, and its
// port may be a name.
type query struct {
	from, to end
	port     string
	protocol policy.Protocol // "": the protocol of the named port, or TCP
	// plain reports that the query names no workload, Service or named port, so that no lookup is needed:
	// it is the question.
	plain    bool
	question explain.Question
}

// end is one end of a question. A pod has a kind too; an address and the node have none.
type end struct {
	kind, namespace, name string
}

func (e end) String() string {
	if e.kind == "" {
		return e.name
	}
	return e.namespace + "/" + e.name
}

// parseQuery parses FROM->TO:PORT[/PROTO]. Names without a namespace get the given one.
func parseQuery(text, namespace string) (query, error) {
	from, rest, ok := strings.Cut(text, "->")
	at := strings.LastIndex(rest, ":")
	if !ok || at < 0 {
		return query{}, errors.New("write FROM->TO:PORT/PROTO, like shop/web->shop/db:5432/TCP")
	}
	a := query{from: parseEnd(from, namespace), to: parseEnd(rest[:at], namespace)}
	port, protocol, has := strings.Cut(strings.TrimSpace(rest[at+1:]), "/")
	a.port, a.protocol = port, policy.Protocol(strings.ToUpper(protocol))
	err := cmp.Or(checkName(a.from), checkName(a.to), checkPort(port), checkProtocol(a.protocol, has))
	lookup := func(e end) bool { return e.kind != "" && e.kind != "Pod" }
	_, name := strconv.Atoi(a.port)
	if a.plain = name == nil && !lookup(a.from) && !lookup(a.to); a.plain && err == nil {
		a.question, err = question(a.from.String(), a.to.String(), a.port, cmp.Or(a.protocol, policy.TCP))
	}
	return a, err
}

func question(from, to, port string, protocol policy.Protocol) (explain.Question, error) {
	return explain.Parse(fmt.Sprintf("%s->%s:%s/%s", from, to, port, protocol))
}

// checkName returns an error for an end that is not a plain name, such as one with a second port or with IPv6 in brackets.
func checkName(e end) error {
	if addr, err := netip.ParseAddr(strings.Trim(e.name, "[]")); err == nil && !addr.Is4() {
		return fmt.Errorf("%s is no IPv4 address; WinNPM judges IPv4 only", addr)
	}
	if e.name == "" || strings.ContainsAny(e.name, ":[] ") {
		return fmt.Errorf("%q is neither a name nor an IPv4 address: write FROM TO:PORT/PROTO, like shop/web shop/db:5432/TCP", e.name)
	}
	return nil
}

// checkPort returns an error unless text is a port number or a valid port name.
func checkPort(text string) error {
	number := text != "" && strings.Trim(text, "0123456789") == ""
	n, err := strconv.ParseUint(text, 10, 16)
	if number && (err != nil || n == 0) || !number && len(validation.IsDNS1123Label(text)) > 0 {
		return fmt.Errorf("%q is no port: a number from 1 to 65535 is, and a name like http", text)
	}
	return nil
}

// checkProtocol returns an error if a protocol is given and policies do not know it.
func checkProtocol(p policy.Protocol, given bool) error {
	if given && !p.Known() {
		return fmt.Errorf("%q is no protocol: TCP, UDP and SCTP are", p)
	}
	return nil
}

// parseEnd parses KIND/NAME, NAMESPACE/KIND/NAME, NAMESPACE/NAME, NAME, an address or the node.
func parseEnd(text, namespace string) end {
	text = strings.TrimSpace(text)
	if _, err := netip.ParseAddr(text); err == nil || text == explain.Node {
		return end{name: text}
	}
	parts := strings.Split(text, "/")
	switch {
	case len(parts) == 1:
		return end{"Pod", namespace, text}
	case len(parts) == 2 && kindWords[parts[0]] != "":
		return end{kindWords[parts[0]], namespace, parts[1]}
	case len(parts) == 3 && kindWords[parts[1]] != "":
		return end{kindWords[parts[1]], parts[0], parts[2]}
	}
	return end{"Pod", parts[0], strings.Join(parts[1:], "/")}
}

// catalog looks up pods and Services.
type catalog interface {
	Pods(ctx context.Context, namespace string) ([]cluster.Pod, error)
	// Service returns nil if the Service does not exist.
	Service(ctx context.Context, namespace, name string) (*corev1.Service, error)
}

// resolved holds the questions that one command line expands to.
type resolved struct {
	questions []explain.Question
	notes     []string // for the user: which pod represents which workload or Service
}

// resolve looks up what the question names.
func (a query) resolve(ctx context.Context, c asked) (resolved, error) {
	var r resolved
	if a.plain {
		r.questions = []explain.Question{a.question}
		return r, nil
	}
	if a.from.kind == serviceKind {
		return r, fmt.Errorf("service %s opens no connections: name the workload that does", a.from)
	}
	froms, _, err := a.from.pods(ctx, c, &r)
	if err != nil {
		return r, err
	}
	tos, svc, err := a.to.pods(ctx, c, &r)
	if err != nil {
		return r, err
	}
	if len(froms)*len(tos) > mostPairs {
		return r, fmt.Errorf("these are %d pairs of pods that differ in node, labels or ports, more than %d: name pods", len(froms)*len(tos), mostPairs)
	}
	for _, to := range tos {
		port, protocol, err := a.portOf(to, svc)
		if err != nil {
			return r, err
		}
		if svc != nil {
			r.note("a connection to Service %s:%s becomes one to %s:%s/%s (DNAT) before policies are asked: they have to allow that port", a.to, a.port, to.name, port, protocol)
		}
		for _, from := range froms {
			q, err := question(from.name, to.name, port, protocol)
			if err != nil {
				return r, err
			}
			r.questions = append(r.questions, q)
		}
	}
	return r, nil
}

func (r *resolved) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// representative is an end that a question can name, with its pod if the pod was looked up.
type representative struct {
	name string
	pod  *cluster.Pod
}

// pods returns one representative for each group of pods of the end that policies treat alike, and the
// Service if the end is one.
func (e end) pods(ctx context.Context, c asked, r *resolved) ([]representative, *corev1.Service, error) {
	if e.kind == "" {
		return []representative{{name: e.name}}, nil, nil
	}
	all, err := c.Pods(ctx, e.namespace)
	switch {
	case apierrors.IsForbidden(err) && e.kind == "Pod": // the other end may be known
		return []representative{{name: e.String()}}, nil, nil
	case err != nil:
		return nil, nil, err
	}
	var svc *corev1.Service
	is := func(p *cluster.Pod) bool { return p.Name == e.name }
	switch e.kind {
	case "Pod":
	case serviceKind:
		if svc, err = e.service(ctx, c); err != nil {
			return nil, nil, err
		}
		selector := labels.SelectorFromSet(svc.Spec.Selector)
		is = func(p *cluster.Pod) bool { return p.Running() && selector.Matches(labels.Set(p.Labels)) }
	default:
		is = func(p *cluster.Pod) bool { return p.Running() && slices.Contains(p.Owners, e.kind+" "+e.String()) }
	}
	var found []*cluster.Pod
	for i := range all {
		if is(&all[i]) {
			found = append(found, &all[i])
		}
	}
	switch {
	case len(found) == 0 && e.kind == "Pod": // the agent suggests similar names
		return []representative{{name: e.String()}}, nil, nil
	case len(found) == 0:
		return nil, nil, fmt.Errorf("%s %s has no running pod%s", strings.ToLower(e.kind), e, e.suggestion(all))
	}
	return e.distinct(found, r), svc, nil
}

// distinct returns one representative for all pods that differ only in their names and addresses.
func (e end) distinct(found []*cluster.Pod, r *resolved) []representative {
	slices.SortFunc(found, func(a, b *cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	count := map[string]int{}
	key := func(p *cluster.Pod) string { return fmt.Sprint(p.Node, p.Labels, p.Ports, p.HostNetwork) }
	var out []representative
	for _, p := range found {
		if count[key(p)]++; count[key(p)] == 1 {
			out = append(out, representative{p.Key().String(), p})
		}
	}
	for _, s := range out {
		if n := count[key(s.pod)]; n > 1 {
			r.note("%s stands for %d pods of %s %s on its node that differ from it in the address alone", s.name, n, strings.ToLower(e.kind), e)
		} else if e.kind != "Pod" {
			r.note("%s is a pod of %s %s", s.name, strings.ToLower(e.kind), e)
		}
	}
	return out
}

func (e end) service(ctx context.Context, c catalog) (*corev1.Service, error) {
	svc, err := c.Service(ctx, e.namespace, e.name)
	switch {
	case err != nil:
		return nil, err
	case svc == nil:
		return nil, fmt.Errorf("there is no Service %s", e)
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return nil, fmt.Errorf("service %s is a name for %s: ask about its addresses", e, svc.Spec.ExternalName)
	case len(svc.Spec.Selector) == 0:
		return nil, fmt.Errorf("service %s has no selector: ask about the addresses in kubectl -n %s get endpointslices", e, e.namespace)
	}
	return svc, nil
}

// suggestion returns a suggestion for the name of a workload that has no pod; "" if no name is similar.
func (e end) suggestion(all []cluster.Pod) string {
	var names []string
	for _, p := range all {
		for _, owner := range p.Owners {
			_, name, _ := strings.Cut(owner, "/")
			names = append(names, name)
		}
	}
	if like := phrase.Similar(e.name, names); like != "" && like != e.name {
		return "; did you mean " + like + "?"
	}
	return ""
}

// portOf returns the number and protocol of the port on the pod of to.
func (a query) portOf(to representative, svc *corev1.Service) (string, policy.Protocol, error) {
	port, protocol := intstr.Parse(a.port), a.protocol
	if svc != nil {
		p, err := a.servicePort(svc)
		if err != nil {
			return "", "", err
		}
		protocol = policy.Protocol(cmp.Or(p.Protocol, corev1.ProtocolTCP))
		port = p.TargetPort
		if port == (intstr.IntOrString{}) {
			port = intstr.FromInt32(p.Port)
		}
	}
	if port.Type == intstr.Int {
		return port.String(), cmp.Or(protocol, policy.TCP), nil
	}
	if to.pod == nil {
		return "", "", fmt.Errorf("port %q is a name, and %s is no pod that is known: give the number", port.StrVal, to.name)
	}
	var names []string
	for _, p := range to.pod.Ports {
		if p.Name == port.StrVal && (protocol == "" || protocol == p.Protocol) {
			return strconv.Itoa(int(p.Number)), p.Protocol, nil
		}
		names = append(names, p.Name)
	}
	return "", "", fmt.Errorf("%s has no port called %q%s", to.name, port.StrVal, there(names))
}

// servicePort finds the port of a Service by number or name.
func (a query) servicePort(svc *corev1.Service) (corev1.ServicePort, error) {
	var ports []string
	for _, p := range svc.Spec.Ports {
		number := strconv.Itoa(int(p.Port))
		if (p.Name == a.port || number == a.port) && (a.protocol == "" || a.protocol == policy.Protocol(cmp.Or(p.Protocol, corev1.ProtocolTCP))) {
			return p, nil
		}
		ports = append(ports, cmp.Or(p.Name, number)+" ("+number+")")
	}
	return corev1.ServicePort{}, fmt.Errorf("service %s has no port %s%s", a.to, a.port, there(ports))
}

func there(names []string) string {
	return strings.TrimSuffix("; there is "+strings.Join(names, ", "), "; there is ")
}

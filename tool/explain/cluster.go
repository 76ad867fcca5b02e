package explain

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// ErrNoEnd means that a question names an end that the dump does not know, or that has no IPv4 address.
var ErrNoEnd = errors.New("cannot be asked about")

// Cluster is a dump with indexes, for many questions. It caches parsed rules and sets. It is not safe for
// concurrent use, and callers must not change the dump while it is in use.
type Cluster struct {
	dump       *state.Dump
	pods       map[string]*state.PodDump
	owners     map[netip.Addr]*state.PodDump
	hosts      map[netip.Addr]*state.PodDump // by node address: one of its host-network pods
	namespaces map[string]namespace
	endpoints  map[string]*state.EndpointDump
	setByID    map[string]*state.SetDump
	setByName  map[string]*state.SetDump
	setNames   SetNames
	// views are the sets in HNS, unknown ones taken as empty or as complete, and the desired sets. lists
	// caches the parsed rules of endpoints for each view.
	views     [3]*view
	lists     map[listKey]parsed
	isolated  map[hns.DirectionType]map[string][]string // the isolating policies by direction and pod
	tierRules []tierRule                                // of all ClusterNetworkPolicies, in the order of evaluation
}

// New returns the cluster of a dump.
func New(dump state.Dump) *Cluster {
	d := &dump
	c := &Cluster{
		dump: d, pods: map[string]*state.PodDump{}, owners: map[netip.Addr]*state.PodDump{}, hosts: map[netip.Addr]*state.PodDump{},
		namespaces: map[string]namespace{}, endpoints: map[string]*state.EndpointDump{},
		setByID: map[string]*state.SetDump{}, setByName: map[string]*state.SetDump{}, setNames: SetNames{},
		isolated: map[hns.DirectionType]map[string][]string{hns.In: {}, hns.Out: {}},
		lists:    map[listKey]parsed{}, tierRules: tierRulesOf(dump.ClusterPolicies),
	}
	c.views = [...]*view{
		viewEmpty:   {c: c, actual: true, sets: map[string]viewed{}},
		viewFull:    {c: c, actual: true, open: true, sets: map[string]viewed{}},
		viewDesired: {c: c, sets: map[string]viewed{}},
	}
	for i := range d.Pods {
		c.addPod(&d.Pods[i])
	}
	for _, ns := range d.Namespaces {
		if ns.OverBudget == "" {
			c.namespaces[ns.Name] = namespace{ns.Labels, true}
		}
	}
	for _, p := range d.Policies {
		for dir, is := range map[hns.DirectionType]bool{hns.In: p.Ingress, hns.Out: p.Egress} {
			for _, pod := range p.Selected {
				if is {
					c.isolated[dir][pod] = append(c.isolated[dir][pod], p.Policy)
				}
			}
		}
	}
	for i := range d.Endpoints {
		c.endpoints[d.Endpoints[i].ID] = &d.Endpoints[i]
	}
	for i := range d.Sets {
		s := &d.Sets[i]
		c.setByID[s.ID], c.setNames[s.ID] = s, s.Name
		// Of two sets with the same name, take the one that has holders.
		if other := c.setByName[s.Name]; other == nil || len(other.Holders) == 0 {
			c.setByName[s.Name] = s
		}
	}
	return c
}

// addPod adds a pod to the indexes by name and by address.
func (c *Cluster) addPod(p *state.PodDump) {
	c.pods[p.Pod] = p
	addr, err := netip.ParseAddr(p.Addr)
	switch {
	case err != nil || !addr.Is4() || p.Finished:
	case p.HostNetwork:
		c.hosts[addr] = p
	case p.Owner:
		c.owners[addr] = p
	}
}

// Dump returns the dump. Callers must not change it.
func (c *Cluster) Dump() *state.Dump { return c.dump }

// Owns returns the address of a pod of the dump, and false if the pod has no address or does not own it.
func (c *Cluster) Owns(pod *state.PodDump) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(pod.Addr)
	return addr, err == nil && c.owners[addr] == pod && c.pods[pod.Pod] == pod && pod.LostUntil.IsZero()
}

// End is one end of a connection.
type End struct {
	Name string // as in the question
	addr netip.Addr
	pod  *state.PodDump // the owner of addr; nil if no pod owns it
	// named is the pod that the question names; nil if it names an address.
	named     *state.PodDump
	note      string
	namespace namespace // of pod
	// endpoints are the endpoints of pod on this node.
	endpoints []*state.EndpointDump
}

// namespace is the labels of a namespace. They are not known if there is no such object, or if it is over
// its budget.
type namespace struct {
	labels map[string]string
	known  bool
}

// Pod returns the owner of the address, else the pod that the question names, else nil.
func (e End) Pod() *state.PodDump { return cmp.Or(e.pod, e.named) }

// Addr returns the address of the end.
func (e End) Addr() netip.Addr { return e.addr }

// End finds an end by its name: namespace/name of a pod, an address, or Node. It fails with ErrNoEnd if the
// dump has no such pod, or no IPv4 address of it.
func (c *Cluster) End(name string) (End, error) {
	if name == Node {
		for _, text := range c.dump.NodeAddrs {
			if addr, err := netip.ParseAddr(text); err == nil && addr.Is4() {
				return c.at(name, addr, nil), nil
			}
		}
		return End{}, fmt.Errorf("the node %w: no address of it is known", ErrNoEnd)
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return c.at(name, addr, nil), nil
	}
	p, ok := c.pods[name]
	switch {
	case !ok:
		return End{}, fmt.Errorf("%s %w: there is no such pod%s", name, ErrNoEnd, c.similar(name))
	case p.Finished:
		return End{}, fmt.Errorf("%s %w: the pod has finished, its address is given up", name, ErrNoEnd)
	case p.Addr == "":
		return End{}, fmt.Errorf("%s %w: the pod has no IPv4 address, or none yet; WinNPM judges IPv4 only", name, ErrNoEnd)
	}
	addr, err := netip.ParseAddr(p.Addr)
	if err != nil || !addr.Is4() {
		return End{}, fmt.Errorf("%s %w: its address %q is none", name, ErrNoEnd, p.Addr)
	}
	return c.at(name, addr, p), nil
}

// at returns the end at an address. named is the pod that the question names, if it names one. The pod of
// the end is the owner of the address, which may be another pod.
func (c *Cluster) at(name string, addr netip.Addr, named *state.PodDump) End {
	e := End{Name: name, addr: addr, pod: c.owners[addr], named: named}
	if e.pod != nil {
		e.namespace, e.endpoints = c.namespaces[namespaceOf(e.pod.Pod)], c.endpointsOf(e.pod)
	}
	host, doubt := c.hosts[addr], c.doubt(e)
	switch {
	case named != nil && named.HostNetwork:
		e.note = fmt.Sprintf("%s uses its node's network: no policy selects it, rules know it as %s", name, addr)
	case doubt != "":
		e.note = doubt
	case named != nil && e.pod == nil:
		e.note = fmt.Sprintf("%s is not the owner of its address %s", name, addr)
	case named != nil && e.pod.Pod != name:
		e.note = fmt.Sprintf("%s and %s claim %s: it is %s that has it", name, e.pod.Pod, addr, e.pod.Pod)
	case named != nil:
	case e.pod != nil:
		e.note = fmt.Sprintf("%s is pod %s", name, e.pod.Pod)
	case slices.Contains(c.dump.NodeAddrs, addr.String()):
		e.note = fmt.Sprintf("%s is the node: nothing is filtered there", addr)
	case host != nil:
		e.note = fmt.Sprintf("%s is the address of a node, of %s for one: nothing is filtered there", addr, host.Pod)
	default:
		e.note = fmt.Sprintf("%s is no pod: nothing is filtered there", addr)
	}
	return e
}

func namespaceOf(object string) string {
	namespace, _, _ := strings.Cut(object, "/")
	return namespace
}

// similarShown limits the names that are suggested.
const similarShown = 3

// similar suggests pods for the name of a missing pod: pods whose name begins with it, as with a workload's
// name, and pods of that name in other namespaces.
func (c *Cluster) similar(name string) string {
	_, short, _ := strings.Cut(name, "/")
	var found []string
	for i := range c.dump.Pods {
		p := c.dump.Pods[i].Pod
		if _, other, _ := strings.Cut(p, "/"); strings.HasPrefix(p, name) || other == short || strings.HasPrefix(other, short+"-") {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return "; there is " + list(found[:min(len(found), similarShown)], "and")
}

// shownRivals limits the pods that a message names as claiming an address.
const shownRivals = 5

// rivals returns all pods that claim the pod's address, including itself, except pods that are finished,
// being deleted, or in the host network.
func (c *Cluster) rivals(pod *state.PodDump) []*state.PodDump {
	var out []*state.PodDump
	for i := range c.dump.Pods {
		p := &c.dump.Pods[i]
		if p.Addr == pod.Addr && !p.Finished && !p.HostNetwork && !p.Deleting {
			out = append(out, p)
		}
	}
	return out
}

// doubt explains that the owner of an end's address is unknown and what the agent does; it returns "" if
// the owner is known.
func (c *Cluster) doubt(e End) string {
	if e.pod == nil || !e.pod.InDoubt {
		return ""
	}
	if until := e.pod.LostUntil; !until.IsZero() {
		return fmt.Sprintf("%s, and its containers may run until %s: until then rules that deny include its address, and rules that allow do not", e.pod.Pod, timeText(until))
	}
	var names []string
	for _, p := range c.rivals(e.pod) {
		names = append(names, p.Pod)
	}
	return fmt.Sprintf("%s is claimed by %s, of several namespaces: until only one of them claims it, it is in no set, and an endpoint that has it is blocked as the policies of each of them say",
		e.addr, strings.Join(some(names, shownRivals), ", "))
}

// contested reports whether the question names a pod that is not known to own its address.
func (e End) contested() bool {
	return e.named != nil && !e.named.HostNetwork && (e.pod == nil || e.pod.Pod != e.named.Pod || e.pod.InDoubt)
}

// isolating returns the policies that isolate a pod in a direction, sorted. If the owner of its address is
// in doubt, they are the policies of all local pods that claim it.
func (c *Cluster) isolating(pod *state.PodDump, dir hns.DirectionType) []string {
	pods := []*state.PodDump{pod}
	if pod.InDoubt {
		pods = slices.DeleteFunc(c.rivals(pod), func(p *state.PodDump) bool { return !p.InDoubt || !p.Local })
	}
	out := []string{}
	for _, p := range pods {
		out = append(out, c.isolated[dir][p.Pod]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

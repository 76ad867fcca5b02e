package tracer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// acl is what an ACL says (Facts 3.1, hcsshim AclPolicySetting). What else there
// may be, Scope and Type and names of version 1, changes nothing.
type acl struct {
	ID              string `json:"Id"`
	Protocols       string
	Action          string
	Direction       Direction
	LocalAddresses  string
	RemoteAddresses string
	LocalPorts      string
	RemotePorts     string
	RuleType        string
	Priority        uint16
}

// rule is an ACL taken apart.
type rule struct {
	id            string
	allow         bool
	direction     Direction
	host          bool
	priority      uint16
	protocol      int // anyProtocol or a number
	ports         []ports
	sourcePorts   bool
	local, remote addresses
}

// anyProtocol is how a rule for any protocol is read back (Facts 3.1, 3.6).
const anyProtocol = 256

// ports are those from first to last.
type ports struct{ first, last uint64 }

// addresses is an address field: literals or sets, or neither for everything.
type addresses struct {
	literals []netip.Prefix
	sets     []*set
}

// rule takes an ACL apart. One without RuleType is one of the switch: AKS writes
// its own allow-all pair like that (AgentBaker azurecnifunc.ps1:256-266).
func (n Network) rule(a acl) (rule, error) {
	layer := cmp.Or(a.RuleType, "Switch")
	if a.Action != "Allow" && a.Action != "Block" || a.Direction != In && a.Direction != Out || layer != "Switch" && layer != "Host" {
		return rule{}, fmt.Errorf("%w: action %q, direction %q, type %q", ErrUnknown, a.Action, a.Direction, a.RuleType)
	}
	protocol, err := strconv.Atoi(cmp.Or(a.Protocols, strconv.Itoa(anyProtocol))) // empty is any, too
	if err != nil || protocol < 0 || protocol > anyProtocol {
		return rule{}, fmt.Errorf("%w: protocol %q", ErrUnknown, a.Protocols)
	}
	r := rule{
		id: a.ID, allow: a.Action == "Allow", direction: a.Direction, host: layer == "Host",
		priority: a.Priority, protocol: protocol,
	}
	// The port of the destination is local for In and remote for Out (Facts 3.6,
	// acn policy_windows.go:146-154).
	destination, source := a.LocalPorts, a.RemotePorts
	if a.Direction == Out {
		destination, source = source, destination
	}
	r.sourcePorts = source != ""
	if r.ports, err = parsePorts(destination); err != nil {
		return rule{}, err
	}
	if r.local, err = n.addresses(a.LocalAddresses); err != nil {
		return rule{}, err
	}
	r.remote, err = n.addresses(a.RemoteAddresses)
	return r, err
}

// parsePorts reads numbers and ranges, separated by commas (Facts 3.6, Calico
// policysets.go:516-518).
func parsePorts(text string) ([]ports, error) {
	if text == "" {
		return nil, nil
	}
	var all []ports
	for _, part := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil || a > b {
			return nil, fmt.Errorf("%w: ports %q", ErrUnknown, part)
		}
		all = append(all, ports{a, b})
	}
	return all, nil
}

// everyIPv6 is the only IPv6 block that this tracer accepts. The agent writes no other one.
const everyIPv6 = "::/0"

// addresses reads an address field. Literals and sets in one are what nobody
// does, so what it means is not known (Facts 3.5).
func (n Network) addresses(field string) (addresses, error) {
	var out addresses
	if field == "" {
		return out, nil
	}
	for _, text := range strings.Split(field, ",") {
		if s := n.sets[text]; s != nil {
			out.sets = append(out.sets, s)
		} else if block, ok := parseBlock(text); ok {
			out.literals = append(out.literals, block)
		} else if text == everyIPv6 {
			out.literals = append(out.literals, netip.MustParsePrefix(text)) // it contains no IPv4 address
		} else {
			return out, fmt.Errorf("%w: %q is neither an IPv4 address nor a set", ErrUnknown, text)
		}
	}
	if len(out.sets) > 0 && len(out.literals) > 0 {
		return out, fmt.Errorf("%w: literals and sets in %q", ErrUnknown, field)
	}
	return out, nil
}

// matches reports whether the rule is about a packet of its direction.
//
// Of literals, local is the endpoint's side and remote the peer's, in both
// directions (Facts 3.5, Calico policysets.go:470-514). Of sets, local is the
// source and remote the destination, in both directions (Facts 3.5, acn
// policy_windows.go:104-143).
func (r rule) matches(p Packet) bool {
	if r.protocol != anyProtocol && r.protocol != int(p.Protocol) {
		return false
	}
	port := func(in ports) bool { return in.first <= uint64(p.Port) && uint64(p.Port) <= in.last }
	if len(r.ports) > 0 && !slices.ContainsFunc(r.ports, port) {
		return false
	}
	switch r.direction {
	case In:
		return r.local.literal(p.Dst) && r.remote.literal(p.Src) && r.local.inSets(p.Src) && r.remote.inSets(p.Dst)
	default:
		return r.local.literal(p.Src) && r.remote.literal(p.Dst) && r.local.inSets(p.Src) && r.remote.inSets(p.Dst)
	}
}

// literal reports whether one of the literals is about an address: a comma
// between them means OR (Facts 3.5).
func (f addresses) literal(a netip.Addr) bool {
	return len(f.literals) == 0 || anyContains(f.literals, a)
}

// inSets reports whether all of the sets have an address: a comma between them
// means AND (Facts 3.5).
func (f addresses) inSets(a netip.Addr) bool {
	return !slices.ContainsFunc(f.sets, func(s *set) bool { return !s.contains(a) })
}

package hnssim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// policy is one policy on an endpoint.
type policy struct {
	read hns.EndpointPolicy // as HNS shows it
	rule *rule              // nil unless it is an ACL
}

// rule is an ACL with everything looked up.
type rule struct {
	acl      hns.ACL // canonical
	protocol int     // anyProtocol or a number
	local    addresses
	remote   addresses
	ports    ports // destination ports; empty: every port
	source   bool  // it asks for source ports
}

// anyProtocol stands for every protocol.
const anyProtocol = -1

// addresses is one address field. With both empty everything matches.
type addresses struct {
	literals spans
	sets     []*set
}

// ports are ranges of ports, both ends included.
type ports [][2]uint16

func (p ports) contain(n uint16) bool {
	return len(p) == 0 || slices.ContainsFunc(p, func(r [2]uint16) bool { return r[0] <= n && n <= r[1] })
}

// sets returns every set that the rule names.
func (r *rule) sets() []*set {
	return append(r.local.sets[:len(r.local.sets):len(r.local.sets)], r.remote.sets...)
}

// lookup finds a set of the endpoint's network by Id; nil when there is none.
type lookup func(id string) *set

// readPolicy checks an endpoint policy as it was sent. What is ours reads back
// normalised; what is not comes back byte for byte.
func readPolicy(p hns.EndpointPolicy, find lookup) (policy, *refused) {
	if p.Type == "" {
		return policy{}, noPolicyType.of(string(p.Settings))
	}
	isACL := p.Type == hns.PolicyTypeACL // decoding one finds out whether it is valid
	if !bytes.HasPrefix(bytes.TrimSpace(p.Settings), []byte("{")) || !isACL && !json.Valid(p.Settings) {
		return policy{}, badSettings.of(fmt.Sprintf("%s %s", p.Type, p.Settings))
	}
	if !isACL {
		return policy{read: p}, nil
	}
	a, err := p.ACL()
	if err != nil {
		return policy{}, badSettings.of(err.Error())
	}
	r, refusal := readACL(a, find)
	if refusal != nil {
		return policy{}, refusal
	}
	if a.Ours() {
		return policy{read: normalised(r.acl), rule: r}, nil
	}
	return policy{read: p, rule: r}, nil
}

// readACL checks a rule and looks up what it names.
func readACL(a hns.ACL, find lookup) (*rule, *refused) {
	a = a.Canonical()
	if a.RuleType == "" {
		a.RuleType = hns.Switch // what HNS takes it for (azure-container-networking#1752)
	}
	r := &rule{acl: a}
	culprit := func(field string) string { return fmt.Sprintf("%q of rule %s", field, a.ID) }
	switch {
	case a.Action != hns.Allow && a.Action != hns.Block:
		return nil, unknownAction.of(culprit(string(a.Action)))
	case a.Direction != hns.In && a.Direction != hns.Out:
		return nil, unknownDirection.of(culprit(string(a.Direction)))
	case a.RuleType != hns.Switch && a.RuleType != hns.Host:
		return nil, unknownRuleType.of(culprit(string(a.RuleType)))
	case a.RuleType == hns.Switch && a.Priority == 0:
		return nil, switchWithoutPriority.of(a.ID)
	case a.RuleType == hns.Host && a.Priority != 0:
		return nil, hostWithPriority.of(culprit(strconv.Itoa(int(a.Priority))))
	case strings.Contains(a.Protocols, ","):
		return nil, severalProtocols.of(culprit(a.Protocols))
	}
	r.protocol = anyProtocol
	if a.Protocols != "" {
		n, err := strconv.ParseUint(a.Protocols, 10, 8)
		if err != nil || strconv.FormatUint(n, 10) != a.Protocols {
			return nil, badProtocol.of(culprit(a.Protocols))
		}
		r.protocol = int(n)
	}
	if a.LocalPorts+a.RemotePorts != "" && !slices.Contains([]int{6, 17, 132}, r.protocol) {
		return nil, portsOfAnyProtocol.of(culprit(a.LocalPorts + a.RemotePorts))
	}
	local, ok := parsePorts(a.LocalPorts)
	if !ok {
		return nil, badPort.of(culprit(a.LocalPorts))
	}
	remote, ok := parsePorts(a.RemotePorts)
	if !ok {
		return nil, badPort.of(culprit(a.RemotePorts))
	}
	if a.Direction == hns.In {
		r.ports, r.source = local, len(remote) > 0
	} else {
		r.ports, r.source = remote, len(local) > 0
	}
	var refusal *refused
	if r.local, refusal = readAddresses(a.LocalAddresses, find); refusal != nil {
		return nil, refusal
	}
	if r.remote, refusal = readAddresses(a.RemoteAddresses, find); refusal != nil {
		return nil, refusal
	}
	if n := listLen(a.LocalAddresses) + listLen(a.RemoteAddresses); n > hns.MaxAddressesPerACL {
		return nil, tooManyAddresses.of(fmt.Sprintf("%d of rule %s", n, a.ID))
	}
	return r, nil
}

// listLen returns the number of texts in a field.
func listLen(field string) int {
	if field == "" {
		return 0
	}
	return strings.Count(field, ",") + 1
}

// readAddresses reads one address field. A text is a literal, or the Id of a
// set that is there or bears our prefix, or nothing that HNS knows.
func readAddresses(field string, find lookup) (addresses, *refused) {
	var out addresses
	if field == "" {
		return out, nil
	}
	var missing string
	for text := range strings.SplitSeq(field, ",") {
		if sp, ok := parseSpan(text); ok {
			out.literals = append(out.literals, sp)
		} else if at := find(text); at != nil {
			out.sets = append(out.sets, at)
		} else if strings.HasPrefix(text, hns.SetIDPrefix) {
			missing = text
		} else if isIPv6(text) {
			return out, ipv6Address.of(text)
		} else {
			return out, badAddress.of(fmt.Sprintf("%q", text))
		}
	}
	if len(out.literals) > 0 && (len(out.sets) > 0 || missing != "") {
		return out, mixedAddresses.of(field)
	}
	if missing != "" {
		return out, aclSetMissing.of(missing)
	}
	out.literals = out.literals.sorted()
	return out, nil
}

// parsePorts reads a list of ports and ranges; false when it is malformed.
func parsePorts(field string) (ports, bool) {
	if field == "" {
		return nil, true
	}
	var out ports
	for text := range strings.SplitSeq(field, ",") {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		a, okA := parsePort(first)
		b, okB := parsePort(last)
		if !okA || !okB || a > b {
			return nil, false
		}
		out = append(out, [2]uint16{a, b})
	}
	return out, true
}

func parsePort(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0 && strconv.FormatUint(n, 10) == text
}

// readBack is an ACL as HNS shows it: any protocol has a number, the keys are in
// another order, and there are some more (azure-container-networking#1752).
type readBack struct {
	Action          hns.Action
	Direction       hns.Direction
	ID              string `json:"Id,omitempty"`
	LocalAddresses  string `json:",omitempty"`
	LocalPorts      string `json:",omitempty"`
	Priority        uint16
	Protocols       string
	RemoteAddresses string `json:",omitempty"`
	RemotePorts     string `json:",omitempty"`
	RuleType        hns.RuleType
	Scope           int
	Type            string
}

// normalised returns the policy as HNS reads it back.
func normalised(a hns.ACL) hns.EndpointPolicy {
	shown := readBack{
		Action: a.Action, Direction: a.Direction, ID: a.ID,
		LocalAddresses: a.LocalAddresses, LocalPorts: a.LocalPorts,
		Priority: a.Priority, Protocols: a.Protocols,
		RemoteAddresses: a.RemoteAddresses, RemotePorts: a.RemotePorts,
		RuleType: a.RuleType, Type: hns.PolicyTypeACL,
	}
	if shown.Protocols == "" {
		shown.Protocols = hns.AnyProtocol
	}
	settings, err := json.Marshal(shown)
	if err != nil {
		panic("BUG: an ACL always encodes: " + err.Error())
	}
	return hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: settings}
}

package hnssim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/match"
)

// policy is one policy on an endpoint.
type policy struct {
	read hns.EndpointPolicy // as HNS returns it
	rule *rule              // nil unless it is an ACL
}

// rule is an ACL with its sets looked up.
type rule struct {
	match.Rule
	sets []*set // the sets that its address fields name
}

// lookup returns the set of the endpoint's network with an Id, or nil.
type lookup func(id string) *set

// readPolicy checks an endpoint policy of a request. Our ACLs read back normalised; other policies read
// back byte for byte.
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
	var a hns.ACL // strict: package hns accepts other spellings for reads only
	if err := json.Unmarshal(p.Settings, &a); err != nil {
		return policy{}, badSettings.of("decode ACL: " + err.Error())
	}
	r, refusal := readACL(a, find)
	if refusal != nil {
		return policy{}, refusal
	}
	if a.Ours() {
		return policy{read: ReadBack(r.ACL), rule: r}, nil
	}
	return policy{read: p, rule: r}, nil
}

// readACL checks a rule and looks up its sets. It accepts only the spellings that WinNPM sends, and keeps
// the spelling.
func readACL(a hns.ACL, find lookup) (*rule, *refused) {
	if a.Protocols == hns.AnyProtocol {
		a.Protocols = "" // as WinNPM sends it
	}
	culprit := func(field string) string { return fmt.Sprintf("%q of rule %s", field, a.ID) }
	layer := cmp.Or(a.RuleType, hns.Switch) // the default of HNS (azure-container-networking#1752)
	switch {
	case a.Action != hns.Allow && a.Action != hns.Block:
		return nil, unknownAction.of(culprit(string(a.Action)))
	case a.Direction != hns.In && a.Direction != hns.Out:
		return nil, unknownDirection.of(culprit(string(a.Direction)))
	case layer != hns.Switch && layer != hns.Host:
		return nil, unknownRuleType.of(culprit(string(a.RuleType)))
	case layer == hns.Switch && a.Priority == 0:
		return nil, switchWithoutPriority.of(a.ID)
	case layer == hns.Host && a.Priority != 0:
		return nil, hostWithPriority.of(culprit(strconv.Itoa(int(a.Priority))))
	case strings.Contains(a.Protocols, ","):
		return nil, severalProtocols.of(culprit(a.Protocols))
	}
	protocol, ok := match.ParseProtocol(a.Protocols)
	if !ok {
		return nil, badProtocol.of(culprit(a.Protocols))
	}
	if a.LocalPorts+a.RemotePorts != "" && !slices.Contains([]int{6, 17, 132}, protocol) {
		return nil, portsOfAnyProtocol.of(culprit(a.LocalPorts + a.RemotePorts))
	}
	for _, field := range []string{a.LocalPorts, a.RemotePorts} {
		if _, ok := match.ParsePorts(field); !ok {
			return nil, badPort.of(culprit(field))
		}
	}
	r := &rule{}
	for _, field := range []string{a.LocalAddresses, a.RemoteAddresses} {
		sets, refusal := findSets(field, find)
		if refusal != nil {
			return nil, refusal
		}
		r.sets = append(r.sets, sets...)
	}
	if n := listLen(a.LocalAddresses) + listLen(a.RemoteAddresses); n > hns.MaxAddressesPerACL {
		return nil, tooManyAddresses.of(fmt.Sprintf("%d of rule %s", n, a.ID))
	}
	parsed, err := match.ParseRule(a, func(id string) *match.Set {
		return &r.sets[slices.IndexFunc(r.sets, func(at *set) bool { return strings.EqualFold(at.ID, id) })].match
	})
	if err != nil {
		panic("BUG: what was checked is refused: " + err.Error())
	}
	a.RuleType = layer
	r.Rule, r.ACL = *parsed, a
	return r, nil
}

// listLen returns the number of entries in a field.
func listLen(field string) int {
	if field == "" {
		return 0
	}
	return strings.Count(field, ",") + 1
}

// findSets checks one address field and returns the sets that it names. Each entry must be a literal or the
// Id of a set.
func findSets(field string, find lookup) ([]*set, *refused) {
	if field == "" {
		return nil, nil
	}
	var sets []*set
	var missing string
	literals := 0
	for text := range strings.SplitSeq(field, ",") {
		if _, ok := match.ParseSpan(text); ok || text == hns.EveryIPv6 {
			literals++
		} else if at := find(text); at != nil {
			sets = append(sets, at)
		} else if strings.HasPrefix(text, hns.SetIDPrefix) {
			missing = text
		} else if isIPv6(text) {
			return nil, ipv6Address.of(text)
		} else {
			return nil, badAddress.of(fmt.Sprintf("%q", text))
		}
	}
	if literals > 0 && (len(sets) > 0 || missing != "") {
		return nil, mixedAddresses.of(field)
	}
	if missing != "" {
		return nil, aclSetMissing.of(missing)
	}
	return sets, nil
}

// isIPv6 reports whether the text is an IPv6 address or block.
func isIPv6(text string) bool {
	if a, err := netip.ParseAddr(text); err == nil {
		return !a.Is4()
	}
	p, err := netip.ParsePrefix(text)
	return err == nil && !p.Addr().Is4()
}

// readBack is an ACL as HNS returns it: with a number for any protocol, another order of keys, and
// additional keys (azure-container-networking#1752).
type readBack struct {
	Action          hns.ActionType
	Direction       hns.DirectionType
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

// ReadBack returns the policy of a rule as HNS returns it.
func ReadBack(a hns.ACL) hns.EndpointPolicy {
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

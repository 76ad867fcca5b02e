package hnsfault

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// ParseDump returns the node that a dump describes. It is strict: an error names
// the line of an unknown word or key, of a blank too many, and of contents that
// HNS refuses. Lines may come in any order after the first, except that an
// endpoint's own follow it; empty lines and lines that begin with # are skipped.
// New endpoints of the node get DefaultForeign, since a dump does not say what
// the CNI does.
func ParseDump(text string) (*Sim, error) {
	p := parser{ids: map[string]string{}}
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := p.line(i+1, line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return p.finish()
}

// parser collects the lines; sets must be there before what names them, and a
// set may be named before its line comes, so building waits for the end.
type parser struct {
	network string
	sets    []parsedSet
	ids     map[string]string // of sets, by name
	eps     []parsedEndpoint
}

type parsedSet struct {
	line int
	hns.SetPolicy
}

type parsedEndpoint struct {
	line     int
	endpoint hnssim.NewEndpoint
	policies []parsedPolicy
}

type parsedPolicy struct {
	line int
	raw  hns.EndpointPolicy // when acl is nil
	acl  *hns.ACL           // its sets by name
	sets [2][]string        // the names of local and remote sets
}

func (p *parser) line(n int, line string) error {
	body, indented := strings.CutPrefix(line, "  ")
	keyword, rest, _ := strings.Cut(body, " ")
	switch {
	case p.network == "" && (keyword != "network" || indented):
		return fmt.Errorf("%q before the network", keyword)
	case indented && len(p.eps) == 0:
		return fmt.Errorf("%q before an endpoint", keyword)
	case indented && keyword == "policy":
		return p.policyLine(n, rest)
	}
	words, err := splitWords(rest)
	if err != nil {
		return err
	}
	switch {
	case indented && keyword == "acl":
		return p.aclLine(n, words)
	case !indented && keyword == "network" && p.network == "":
		return p.networkLine(words)
	case !indented && keyword == "set":
		return p.setLine(n, words)
	case !indented && keyword == "endpoint":
		return p.endpointLine(n, words)
	}
	return fmt.Errorf("unexpected %q", keyword)
}

func (p *parser) networkLine(words []word) error {
	if len(words) != 1 || words[0].key != "" || len(words[0].values) != 1 || words[0].values[0] == "" {
		return fmt.Errorf("want: network NAME")
	}
	p.network = words[0].values[0]
	return nil
}

func (p *parser) setLine(n int, words []word) error {
	const want = "want: set NAME TYPE [VALUE,...] [id=ID]"
	pos, keys, err := split(words, "id")
	if err != nil {
		return err
	}
	if len(pos) < 2 || len(pos) > 3 || len(pos[0]) != 1 || len(pos[1]) != 1 {
		return fmt.Errorf("%s", want)
	}
	s := parsedSet{n, hns.SetPolicy{Name: pos[0][0], Type: hns.SetType(pos[1][0]), ID: derivedID(pos[0][0])}}
	if len(pos) == 3 {
		s.Values = pos[2]
	}
	if id, ok := keys["id"]; ok {
		if len(id) != 1 {
			return fmt.Errorf("%s", want)
		}
		s.ID = id[0]
	}
	if _, twice := p.ids[s.Name]; twice {
		return fmt.Errorf("a second set %q", s.Name)
	}
	p.ids[s.Name] = s.ID
	p.sets = append(p.sets, s)
	return nil
}

func (p *parser) endpointLine(n int, words []word) error {
	pos, keys, err := split(words, "addrs", "state", "network")
	if err != nil {
		return err
	}
	e := parsedEndpoint{line: n}
	switch {
	case len(pos) == 2 && slices.Equal(pos[1], []string{"remote"}):
		e.endpoint.Remote = true
	case len(pos) != 1:
		return fmt.Errorf("want: endpoint ID [addrs=IP,...] [state=STATE] [remote] [network=NAME]")
	}
	if len(pos[0]) != 1 {
		return fmt.Errorf("a list as ID")
	}
	e.endpoint.ID = pos[0][0]
	for _, text := range keys["addrs"] {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return err
		}
		e.endpoint.Addrs = append(e.endpoint.Addrs, a)
	}
	e.endpoint.State = defaultState
	if state, ok := keys["state"]; ok {
		name := strings.Join(state, ",")
		var ok bool
		if e.endpoint.State, ok = parseState(name); !ok {
			return fmt.Errorf("no state %q", name)
		}
	}
	e.endpoint.Network = strings.Join(keys["network"], ",")
	p.eps = append(p.eps, e)
	return nil
}

// parseState returns the state with a name.
func parseState(name string) (hnssim.EndpointState, bool) {
	for state := hnssim.Uninitialized; state <= hnssim.Destroyed; state++ {
		if state.String() == name {
			return state, true
		}
	}
	return 0, false
}

// policyLine reads TYPE SETTINGS; the settings are the rest of the line.
func (p *parser) policyLine(n int, rest string) error {
	kind, settings, err := cutWord(rest)
	if err != nil {
		return err
	}
	if strings.HasPrefix(settings, `"`) {
		if settings, err = strconv.Unquote(settings); err != nil {
			return fmt.Errorf("settings: %w", err)
		}
	}
	p.add(parsedPolicy{line: n, raw: hns.EndpointPolicy{Type: kind, Settings: []byte(settings)}})
	return nil
}

func (p *parser) aclLine(n int, words []word) error {
	pos, keys, err := split(words, "rule", "proto", "local-sets", "local", "remote-sets", "remote", "local-ports", "remote-ports")
	if err != nil {
		return err
	}
	if len(pos) != 4 || slices.ContainsFunc(pos, func(list []string) bool { return len(list) != 1 }) {
		return fmt.Errorf("want: acl DIRECTION PRIORITY ACTION ID, then words KEY=VALUE")
	}
	priority, err := strconv.ParseUint(pos[1][0], 10, 16)
	if err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	one := func(key string) string { return strings.Join(keys[key], ",") }
	a := hns.ACL{
		Direction: hns.Direction(pos[0][0]), Priority: uint16(priority),
		Action: hns.Action(pos[2][0]), ID: pos[3][0], RuleType: hns.RuleType(one("rule")),
		Protocols: one("proto"), LocalPorts: one("local-ports"), RemotePorts: one("remote-ports"),
		LocalAddresses: one("local"), RemoteAddresses: one("remote"),
	}
	if !a.Ours() {
		return fmt.Errorf("rule %q is not ours: write it as policy", a.ID)
	}
	for _, side := range []string{"local", "remote"} {
		if keys[side] != nil && keys[side+"-sets"] != nil {
			return fmt.Errorf("both %s and %s-sets", side, side)
		}
	}
	p.add(parsedPolicy{line: n, acl: &a, sets: [2][]string{keys["local-sets"], keys["remote-sets"]}})
	return nil
}

func (p *parser) add(policy parsedPolicy) {
	last := &p.eps[len(p.eps)-1]
	last.policies = append(last.policies, policy)
}

// finish builds the node: leaves, lists, endpoints.
func (p *parser) finish() (*Sim, error) {
	if p.network == "" {
		return nil, fmt.Errorf("no network")
	}
	s := New(Options{Network: p.network, Foreign: hnssim.DefaultForeign()})
	for _, nested := range []bool{false, true} { // lists name what is there
		if err := p.putSets(s, nested); err != nil {
			return nil, err
		}
	}
	for _, e := range p.eps {
		e.endpoint.Policies = []hns.EndpointPolicy{}
		err := s.CreateEndpoint(e.endpoint)
		if err == nil {
			err = s.SetState(e.endpoint.ID, e.endpoint.State) // CreateEndpoint has another default
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", e.line, err)
		}
		var policies []hns.EndpointPolicy
		for _, pol := range e.policies {
			raw, err := p.resolve(pol)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", pol.line, err)
			}
			policies = append(policies, raw)
			if err := s.SetPolicies(e.endpoint.ID, policies); err != nil {
				return nil, fmt.Errorf("line %d: %w", pol.line, err)
			}
		}
	}
	return s, nil
}

// putSets makes the lists, or all other sets.
func (p *parser) putSets(s *Sim, nested bool) error {
	for _, set := range p.sets {
		if (set.Type == hns.NestedIPSet) != nested {
			continue
		}
		var err error
		if nested {
			set.Values, err = p.idsOf(set.Values)
		}
		if err == nil {
			err = s.PutSet(set.SetPolicy)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", set.line, err)
		}
	}
	return nil
}

// resolve returns the policy with Ids instead of names.
func (p *parser) resolve(pol parsedPolicy) (hns.EndpointPolicy, error) {
	if pol.acl == nil {
		return pol.raw, nil
	}
	a := *pol.acl
	for i, field := range []*string{&a.LocalAddresses, &a.RemoteAddresses} {
		if pol.sets[i] == nil {
			continue
		}
		ids, err := p.idsOf(pol.sets[i])
		if err != nil {
			return hns.EndpointPolicy{}, err
		}
		*field = strings.Join(ids, ",")
	}
	return hns.NewACLPolicy(a), nil
}

func (p *parser) idsOf(names []string) ([]string, error) {
	ids := make([]string, len(names))
	for i, name := range names {
		id, ok := p.ids[name]
		if !ok {
			return nil, fmt.Errorf("no set %q", name)
		}
		ids[i] = id
	}
	return ids, nil
}

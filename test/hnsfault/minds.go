package hnsfault

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// latency returns what a call takes; s.mu must be held.
func (s *Sim) latency(c *Call) time.Duration {
	if s.odd == nil {
		return 0
	}
	return time.Duration(c.DLLCalls) * s.odd.Latency
}

// oddly carries out a call as this HNS does, which may ignore it or do only half of it.
func (s *Sim) oddly(c *Call, do func(half bool) error) error {
	ignored, half, code := s.whim(c)
	if ignored {
		return nil
	}
	err := do(half)
	if half && err == nil {
		return failed(c.Call, code)
	}
	return err
}

// whim decides whether HNS ignores a write, or does half of it and fails with a
// code.
func (s *Sim) whim(c *Call) (ignored, half bool, code uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.odd
	if o == nil || !strings.HasPrefix(c.Op, "SetPolicy/") && c.Op != hns.OpACLAdd && c.Op != hns.OpACLUpdate {
		return false, false, 0
	}
	if o.happens(o.Ignored, &o.ignored) {
		return true, false, 0
	}
	return false, o.happens(o.Half, &o.halves), cmp.Or(o.Half.Code, codeFail)
}

// refusesMore reports whether this HNS may refuse what the strict one takes.
func (s *Sim) refusesMore() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rejectSet)+len(s.rejectACL) > 0 || s.odd != nil && len(s.odd.Refuses) > 0
}

// minds returns why this HNS refuses a request that the strict one takes; nil when
// it takes it too. plain is the request without the words of HNS.
func (s *Sim) minds(c, plain hnssim.Call) error {
	sets := len(s.Sets()) // the strict simulator is not called with s.mu held
	var before []hns.EndpointPolicy
	if e, ok := s.Endpoint(c.Target); ok && c.Op == hns.OpACLAdd {
		before = e.Policies
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.Op == hns.OpACLAdd || c.Op == hns.OpACLUpdate:
		return s.mindsRules(c, rulesOf(plain), len(rulesIn(before)))
	case c.Op == hns.OpSets(hns.Add):
		return s.mindsSets(c, plain.Sets, sets+len(plain.Sets))
	case len(plain.Sets) > 0:
		return s.mindsSets(c, plain.Sets, 0)
	}
	return nil
}

// mindsSets is minds for sets, count of which would be in the network; s.mu must be
// held.
func (s *Sim) mindsSets(c hnssim.Call, sets []hns.SetPolicy, count int) error {
	removes := c.Op == hns.OpSets(hns.Remove)
	for _, match := range s.rejectSet {
		if i := slices.IndexFunc(cloneSets(sets), match); i >= 0 && !removes {
			return s.refuse(c, sets[i].Name, 0)
		}
	}
	if s.odd == nil {
		return nil
	}
	for _, f := range s.odd.Refuses {
		switch {
		case f.What == RequestBytes && c.Bytes > f.N:
			return s.refuse(c, fmt.Sprintf("%d bytes: %v", c.Bytes, f), f.Code)
		case f.What == SetCount && count > f.N:
			return s.refuse(c, fmt.Sprintf("%d sets: %v", count, f), f.Code)
		case removes:
			continue
		}
		if i := slices.IndexFunc(sets, f.mindsSet); i >= 0 {
			return s.refuse(c, fmt.Sprintf("%s: %v", sets[i].Name, f), f.Code)
		}
	}
	return nil
}

func (f Refusal) mindsSet(p hns.SetPolicy) bool {
	switch f.What {
	case Braces:
		return strings.ContainsAny(p.Name, "{}")
	case NameLength:
		return len(p.Name) > f.N
	case NestedMembers:
		return p.Type == hns.NestedIPSet && len(p.Values) > f.N
	case SetValues:
		return p.Type == hns.IPSet && len(p.Values) > f.N
	default: // it is about rules, or about the request
		return false
	}
}

// mindsRules is minds for a write of rules to an endpoint that keeps so many others;
// s.mu must be held.
func (s *Sim) mindsRules(c hnssim.Call, rules []hns.ACL, kept int) error {
	for _, match := range s.rejectACL {
		if i := slices.IndexFunc(rules, match); i >= 0 {
			return s.refuse(c, rules[i].ID, 0)
		}
	}
	if s.odd == nil {
		return nil
	}
	for _, f := range s.odd.Refuses {
		minds := func(a hns.ACL) bool { return a.Ours() && f.mindsRule(a) }
		if i := slices.IndexFunc(rules, minds); i >= 0 {
			return s.refuse(c, fmt.Sprintf("%s: %v", rules[i].ID, f), f.Code)
		}
		switch {
		case f.What == RequestBytes && c.Bytes > f.N:
			return s.refuse(c, fmt.Sprintf("%d bytes: %v", c.Bytes, f), f.Code)
		case f.What == ACLCount && kept+len(rules) > f.N:
			return s.refuse(c, fmt.Sprintf("%d rules: %v", kept+len(rules), f), f.Code)
		case f.What == ForeignExtras && slices.ContainsFunc(c.Policies, hasExtras):
			return s.refuse(c, fmt.Sprintf("others' rules: %v", f), f.Code)
		}
	}
	return nil
}

// rulesOf returns the rules that a request writes.
func rulesOf(c hnssim.Call) []hns.ACL {
	out := rulesIn(c.Policies)
	for _, a := range c.ACLs {
		out = append(out, normalised(a))
	}
	return out
}

// rulesIn returns the rules among policies that the strict simulator has taken.
func rulesIn(policies []hns.EndpointPolicy) []hns.ACL {
	var out []hns.ACL
	for _, p := range policies {
		if a, err := p.ACL(); err == nil {
			out = append(out, normalised(a))
		}
	}
	return out
}

// normalised returns a rule as the strict simulator keeps it.
func normalised(a hns.ACL) hns.ACL {
	if a.Protocols == hns.AnyProtocol {
		a.Protocols = ""
	}
	a.RuleType = cmp.Or(a.RuleType, hns.Switch)
	return a
}

func (f Refusal) mindsRule(a hns.ACL) bool {
	ports := a.LocalPorts + a.RemotePorts // one of them is empty, or it has source ports
	switch f.What {
	case PortRanges:
		return strings.Contains(ports, "-")
	case PortLists:
		return strings.Contains(ports, ",")
	case SCTP:
		return a.Protocols == "132"
	case HostRules:
		return a.RuleType == hns.Host
	case WideBlocks:
		return slices.ContainsFunc(slices.Concat(literals(a.LocalAddresses), literals(a.RemoteAddresses)), func(text string) bool {
			sp, ok := hns.ParseSpan(text)
			return ok && sp.Last-sp.First >= 1<<24-1
		})
	case Literals:
		return max(len(literals(a.LocalAddresses)), len(literals(a.RemoteAddresses))) > f.N
	default: // it is about sets, or about the request
		return false
	}
}

// literals returns the texts of a field that names no sets.
func literals(field string) []string {
	texts := strings.Split(field, ",")
	if _, ok := hns.ParseSpan(texts[0]); !ok && texts[0] != hns.EveryIPv6 {
		return nil
	}
	return texts
}

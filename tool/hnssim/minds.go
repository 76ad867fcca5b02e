package hnssim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// latency returns what a call takes; s.mu must be held.
func (s *Sim) latency(c *Call) time.Duration {
	if s.odd == nil {
		return 0
	}
	return time.Duration(c.DLLCalls) * s.odd.Latency
}

// oddly does a call as this HNS does it, now and then by halves or not at all;
// s.mu must be held.
func (s *Sim) oddly(c *Call, do func(half bool) error) error {
	o := s.odd
	if o == nil || !strings.HasPrefix(c.Op, "SetPolicy/") && c.Op != hns.OpACLAdd && c.Op != hns.OpACLUpdate {
		return do(false)
	}
	switch {
	case o.happens(o.Ignored, &o.ignored):
		return nil
	case o.happens(o.Half, &o.halves):
		if err := do(true); err != nil {
			return err
		}
		return c.failed(cmp.Or(o.Half.Code, codeFail))
	}
	return do(false)
}

// as returns the refusal of a trait.
func (f Refusal) as(r reason, what string) *refused {
	out := r.of(fmt.Sprintf("%s: %v", what, f))
	out.code = f.Code
	return out
}

// mindsSets returns why this HNS refuses a request that the strict one takes; nil when it
// takes it too; s.mu must be held.
func (s *Sim) mindsSets(verb hns.Verb, sets []hns.SetPolicy, size int) *refused {
	if s.odd == nil {
		return nil
	}
	for _, f := range s.odd.Refuses {
		switch {
		case f.What == RequestBytes && size > f.N:
			return f.as(setRejected, fmt.Sprintf("%d bytes", size))
		case f.What == SetCount && verb == hns.Add && len(s.sets)+len(sets) > f.N:
			return f.as(setRejected, fmt.Sprintf("%d more", len(sets)))
		case verb == hns.Remove:
			continue
		}
		if i := slices.IndexFunc(sets, f.mindsSet); i >= 0 {
			return f.as(setRejected, sets[i].Name)
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

// mindsRules returns why this HNS refuses a write of rules that the strict one takes; nil
// when it takes it too; s.mu must be held. sent are the policies of an Update, next all
// that the endpoint would have, from first on those that were sent.
func (s *Sim) mindsRules(sent []hns.EndpointPolicy, next []policy, first, size int) *refused {
	if s.odd == nil {
		return nil
	}
	for _, f := range s.odd.Refuses {
		rules := 0
		for i, p := range next {
			if p.rule == nil {
				continue
			}
			rules++
			if a := p.rule.ACL; i >= first && a.Ours() && f.mindsRule(p.rule) {
				return f.as(aclRejected, a.ID)
			}
		}
		switch {
		case f.What == RequestBytes && size > f.N:
			return f.as(aclRejected, fmt.Sprintf("%d bytes", size))
		case f.What == ACLCount && rules > f.N:
			return f.as(aclRejected, fmt.Sprintf("%d rules", rules))
		case f.What == ForeignExtras && slices.ContainsFunc(sent, hasExtras):
			return f.as(aclRejected, "others' rules")
		}
	}
	return nil
}

func (f Refusal) mindsRule(r *rule) bool {
	a := r.ACL
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
		wide := func(sp hns.Span) bool { return sp.Last-sp.First >= 1<<24-1 }
		return slices.ContainsFunc(slices.Concat(r.Local.Literals, r.Remote.Literals), wide)
	case Literals:
		return r.local == nil && listLen(a.LocalAddresses) > f.N || r.remote == nil && listLen(a.RemoteAddresses) > f.N
	default: // it is about sets, or about the request
		return false
	}
}

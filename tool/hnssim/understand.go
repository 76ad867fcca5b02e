package hnssim

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// HNS takes back what it shows, and keeps it as it was first written: lifting a personality
// shows the node as a plain one would have it. Capitals are read as the letters of what is
// stored, or else as small ones.

// plainSets returns sets without the words of HNS; s.mu must be held.
func (s *Sim) plainSets(sets []hns.SetPolicy) []hns.SetPolicy {
	if s.odd == nil {
		return sets
	}
	plain := s.plainAddress()
	out := cloneSets(sets)
	for i, p := range out {
		out[i].ID = plain(p.ID)
		stored := map[string]string{} // values, by how they are shown
		if at := s.sets[out[i].ID]; at != nil {
			for _, v := range at.Values {
				stored[s.odd.showAddress(v)] = v
			}
		}
		for j, v := range p.Values {
			out[i].Values[j] = cmp.Or(stored[v], plain(v))
		}
	}
	return out
}

// plainRules returns rules of ours without the words of HNS; s.mu must be held.
func (s *Sim) plainRules(acls []hns.ACL) []hns.ACL {
	if s.odd == nil {
		return acls
	}
	plain := s.plainAddress()
	out := slices.Clone(acls)
	for i, a := range out {
		out[i] = s.odd.plainRule(a, plain)
	}
	return out
}

// plainPolicies returns all policies of an endpoint without the words of HNS,
// those of others as they are stored if they are; s.mu must be held.
func (s *Sim) plainPolicies(e *endpoint, sent []hns.EndpointPolicy) []hns.EndpointPolicy {
	if s.odd == nil {
		return sent
	}
	plain := s.plainAddress()
	var stored []hns.EndpointPolicy
	ours := map[hns.ACL]hns.ACL{} // by how they are shown
	for _, p := range e.policies {
		if p.rule == nil || !p.rule.ACL.Ours() {
			stored = append(stored, p.read)
		} else {
			ours[s.odd.showRule(p.rule.ACL)] = p.rule.ACL
		}
	}
	out := clonePolicies(sent)
	for i, p := range out {
		if a, err := p.ACL(); err == nil {
			known, ok := ours[anyIsEmpty(a)]
			if !ok {
				known = s.odd.plainRule(a, plain)
			}
			if known.Ours() {
				out[i] = hns.NewACLPolicy(known)
				continue
			}
		}
		meaning := meaningOf(p)
		if at := slices.IndexFunc(stored, func(q hns.EndpointPolicy) bool { return meaningOf(q) == meaning }); at >= 0 {
			out[i] = stored[at]
			stored = slices.Delete(stored, at, at+1)
		} else {
			out[i].Settings = s.odd.withoutOwn(p.Settings)
		}
	}
	return out
}

// plainAddress returns what undoes showAddress; s.mu must be held while it is used.
// A mask is not undone: it may have been sent.
func (s *Sim) plainAddress() func(string) string {
	byCapitals := map[string]string{}
	if s.odd.Spelling.UpperSetIDs {
		for id := range s.sets {
			byCapitals[strings.ToUpper(id)] = id
		}
	}
	return func(text string) string {
		text = strings.TrimPrefix(text, s.odd.Spelling.Strange)
		if id, ok := byCapitals[text]; ok && s.sets[text] == nil {
			return id
		}
		if s.odd.Spelling.UpperSetIDs && s.sets[text] == nil {
			return small(text, hns.SetIDPrefix)
		}
		return text
	}
}

// plainRule undoes showRule; a port list keeps its order.
func (o *odd) plainRule(a hns.ACL, plainAddress func(string) string) hns.ACL {
	for _, field := range []*string{&a.LocalAddresses, &a.RemoteAddresses} {
		*field = eachOf(*field, plainAddress)
	}
	for _, field := range []*string{&a.LocalPorts, &a.RemotePorts} {
		*field = eachOf(*field, func(port string) string { return strings.TrimPrefix(port, o.Spelling.StrangePorts) })
	}
	if o.Spelling.ProtocolNames {
		for number, name := range protocolNames {
			if a.Protocols == name {
				a.Protocols = number
			}
		}
	}
	if o.Spelling.NoRuleType && a.RuleType == "" {
		a.RuleType = hns.Switch
	}
	if o.Spelling.UpperRuleIDs {
		a.ID = small(a.ID, hns.ACLIDPrefix)
	}
	return a
}

// small returns an Id of ours in small letters if it is in capitals.
func small(id, prefix string) string {
	if strings.HasPrefix(id, strings.ToUpper(prefix)) && id == strings.ToUpper(id) {
		return strings.ToLower(id)
	}
	return id
}

// find returns the endpoint of a GUID, nil when there is none; s.mu must be held.
func (s *Sim) find(id string) *endpoint {
	if e := s.endpoints[id]; e != nil || s.odd == nil || !s.odd.Spelling.UpperGUIDs {
		return e
	}
	for _, e := range s.endpoints {
		if strings.EqualFold(e.id, id) {
			return e
		}
	}
	return nil
}

// target returns the GUID as the simulator has it.
func (s *Sim) target(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(id); e != nil {
		return e.id
	}
	return id
}

// documented are the fields of a rule that HNS documents.
var documented = map[string]bool{
	"Id": true, "Protocols": true, "Action": true, "Direction": true, "LocalAddresses": true,
	"RemoteAddresses": true, "LocalPorts": true, "RemotePorts": true, "RuleType": true, "Priority": true,
}

// meaningOf returns what another owner's policy says, whatever its bytes: of a
// rule the documented fields.
func meaningOf(p hns.EndpointPolicy) string {
	if a, err := p.ACL(); err == nil {
		return "rule " + string(hns.NewACLPolicy(a.Canonical()).Settings)
	}
	var value any
	if json.Unmarshal(p.Settings, &value) != nil {
		return p.Type + " " + string(p.Settings)
	}
	return p.Type + " " + string(encode(value))
}

// withoutOwn returns settings without the fields that HNS itself added; without
// any of them byte for byte.
func (o *odd) withoutOwn(settings json.RawMessage) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(settings, &fields) != nil {
		return settings
	}
	before := len(fields)
	if o.Spelling.Extra {
		delete(fields, extraField)
	}
	if o.Spelling.Counter {
		delete(fields, counterField)
	}
	if len(fields) == before {
		return settings
	}
	return joinFields(fields, nil)
}

// hasExtras reports whether another owner's rule has an undocumented field.
func hasExtras(p hns.EndpointPolicy) bool {
	a, err := p.ACL()
	fields := map[string]json.RawMessage{}
	if err != nil || a.Ours() || json.Unmarshal(p.Settings, &fields) != nil {
		return false
	}
	for key := range fields {
		if !documented[key] {
			return true
		}
	}
	return false
}

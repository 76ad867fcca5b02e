package hnsfault

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// HNS takes back what it shows, and keeps it as it was first written: lifting a personality
// shows the node as a plain one would have it. Capitals are read as the letters of what is
// stored, or else as small ones.

// plain returns a request without the words of HNS.
func (s *Sim) plain(c hnssim.Call) hnssim.Call {
	s.mu.Lock()
	odd := s.odd != nil
	s.mu.Unlock()
	if !odd || len(c.Sets)+len(c.ACLs)+len(c.Policies) == 0 {
		return c
	}
	stored := map[string]hns.SetPolicy{}
	for _, p := range s.Sets() { // the strict simulator is not called with s.mu held
		stored[p.ID] = p
	}
	e, _ := s.Endpoint(c.Target)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.odd == nil {
		return c
	}
	address := s.odd.plainAddress(stored)
	c.Sets = s.odd.plainSets(c.Sets, stored, address)
	c.ACLs = slices.Clone(c.ACLs)
	for i, a := range c.ACLs {
		c.ACLs[i] = s.odd.plainRule(a, address)
	}
	c.Policies = s.odd.plainPolicies(c.Policies, e.Policies, address)
	return c
}

// plainSets returns sets without the words of HNS.
func (o *odd) plainSets(sets []hns.SetPolicy, stored map[string]hns.SetPolicy, plain func(string) string) []hns.SetPolicy {
	out := cloneSets(sets)
	for i, p := range out {
		out[i].ID = plain(p.ID)
		values := map[string]string{} // by how they are shown
		for _, v := range stored[out[i].ID].Values {
			values[o.showAddress(v)] = v
		}
		for j, v := range p.Values {
			out[i].Values[j] = cmp.Or(values[v], plain(v))
		}
	}
	return out
}

// plainPolicies returns all policies of an endpoint without the words of HNS,
// those of others as they are stored if they are.
func (o *odd) plainPolicies(sent, has []hns.EndpointPolicy, plain func(string) string) []hns.EndpointPolicy {
	var others []hns.EndpointPolicy
	ours := map[hns.ACL]hns.ACL{} // by how they are shown
	for _, p := range has {
		if rules := rulesIn([]hns.EndpointPolicy{p}); len(rules) > 0 && rules[0].Ours() {
			ours[o.showRule(rules[0])] = rules[0]
		} else {
			others = append(others, p)
		}
	}
	out := clonePolicies(sent)
	for i, p := range out {
		if a, err := p.ACL(); err == nil {
			if a.Protocols == hns.AnyProtocol {
				a.Protocols = ""
			}
			known, ok := ours[a]
			if !ok {
				known = o.plainRule(a, plain)
			}
			if known.Ours() {
				out[i] = hns.NewACLPolicy(known)
				continue
			}
		}
		meaning := meaningOf(p)
		if at := slices.IndexFunc(others, func(q hns.EndpointPolicy) bool { return meaningOf(q) == meaning }); at >= 0 {
			out[i] = others[at]
			others = slices.Delete(others, at, at+1)
		} else {
			out[i].Settings = o.withoutOwn(p.Settings)
		}
	}
	return out
}

// plainAddress returns what undoes showAddress, among stored sets. A mask is not
// undone: it may have been sent.
func (o *odd) plainAddress(stored map[string]hns.SetPolicy) func(string) string {
	byCapitals := map[string]string{}
	if o.Spelling.UpperSetIDs {
		for id := range stored {
			byCapitals[strings.ToUpper(id)] = id
		}
	}
	return func(text string) string {
		text = strings.TrimPrefix(text, o.Spelling.Strange)
		if _, ok := stored[text]; ok || !o.Spelling.UpperSetIDs {
			return text
		}
		return cmp.Or(byCapitals[text], small(text, hns.SetIDPrefix))
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

// target returns the GUID of an endpoint as the strict simulator has it.
func (s *Sim) target(id string) string {
	s.mu.Lock()
	capitals := s.odd != nil && s.odd.Spelling.UpperGUIDs
	s.mu.Unlock()
	if !capitals {
		return id
	}
	ids := s.AllEndpointIDs()
	if at := slices.IndexFunc(ids, func(other string) bool { return strings.EqualFold(other, id) }); at >= 0 && !slices.Contains(ids, id) {
		return ids[at]
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

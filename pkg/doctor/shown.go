package doctor

import (
	"encoding/json"
	"strings"
)

// object is a network or an endpoint as HNS shows it, with what the doctor looks at.
type object struct {
	ID, Name, Type       string
	State                json.Number
	Flags                uint32
	HostComputeNetwork   string
	HostComputeNamespace string
	Policies             []shownPolicy
}

// shownPolicy is one of its policies.
type shownPolicy struct {
	Type     string
	Settings json.RawMessage
}

// shown decodes what a read shows; ok is false when it is nothing that an agent could use.
func (r *Record) shown() (o object, ok bool) {
	if !r.ok() {
		return object{}, false
	}
	err := json.Unmarshal([]byte(r.Output), &o)
	return o, err == nil
}

// fields are the settings of a policy, each as its JSON text; nil: they are no object.
func (p shownPolicy) fields() map[string]json.RawMessage {
	var out map[string]json.RawMessage
	if json.Unmarshal(p.Settings, &out) != nil {
		return nil
	}
	return out
}

// text is a field that is a string.
func text(fields map[string]json.RawMessage, key string) string {
	var out string
	if json.Unmarshal(fields[key], &out) != nil {
		return ""
	}
	return out
}

// sets returns the ip sets of a network by Id.
func (o object) sets() map[string]map[string]json.RawMessage {
	out := map[string]map[string]json.RawMessage{}
	for _, p := range o.Policies {
		if f := p.fields(); p.Type == "SetPolicy" && f != nil {
			out[text(f, "Id")] = f
		}
	}
	return out
}

// rules returns the policies that are rules.
func (o object) rules() []shownPolicy {
	var out []shownPolicy
	for _, p := range o.Policies {
		if p.Type == "ACL" {
			out = append(out, p)
		}
	}
	return out
}

// acls returns the rules of an endpoint that bear an Id, in whatever case.
func (o object) acls(id string) []map[string]json.RawMessage {
	var out []map[string]json.RawMessage
	for _, p := range o.rules() {
		if f := p.fields(); f != nil && strings.EqualFold(text(f, "Id"), id) {
			out = append(out, f)
		}
	}
	return out
}

// differs says of which fields of what was sent something else is shown, and how.
func differs(sent, seen map[string]json.RawMessage) []string {
	var out []string
	for _, key := range sorted(sent) {
		got, there := seen[key]
		switch {
		case !there:
			out = append(out, key+" is not shown")
		case string(got) != string(sent[key]):
			out = append(out, key+" was "+string(sent[key])+" and is shown as "+string(got))
		}
	}
	return out
}

// request is a change of policies; the list is JSON, separated by commas.
func request(verb, policies string) string {
	return `{"ResourceType":"Policy","RequestType":"` + verb + `","Settings":{"Policies":[` + policies + `]}}`
}

// setPolicy is an ip set on the wire.
func setPolicy(id, name, kind, values string) string {
	return `{"Type":"SetPolicy","Settings":{"Id":` + quoted(id) + `,"Name":` + quoted(name) + `,"PolicyType":` + quoted(kind) + `,"Values":` + quoted(values) + `}}`
}

// Kinds of ip sets.
const (
	leaf   = "IPSET"
	nested = "NESTEDIPSET"
)

// aclPolicy is a rule on the wire: fields are JSON without braces.
func aclPolicy(id, fields string) string {
	return `{"Type":"ACL","Settings":{"Id":` + quoted(id) + `,` + fields + `}}`
}

// isGUID reports whether HNS, and not a person, gave a name.
func isGUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, r := range strings.ToLower(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (r == '-') || !dash && !strings.ContainsRune("0123456789abcdef", r) {
			return false
		}
	}
	return true
}

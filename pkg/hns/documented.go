package hns

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// documentedFields are those that an ACL has by the documentation of HNS
// (hcsshim hcn/hcnpolicy.go AclPolicySetting) and the Id, which HNS takes and
// shows though it is not there.
var documentedFields = []string{
	"Id", "Protocols", "Action", "Direction", "LocalAddresses", "RemoteAddresses",
	"LocalPorts", "RemotePorts", "RuleType", "Priority",
}

// Documented returns an ACL policy cut to the fields that are documented, in
// their order, each value byte for byte as it was read: HNS shows more fields
// (Scope, Type; azure-container-networking#1752) and may refuse them when they go
// back. Keys count without letter case and are written as documented; of several,
// one that is written so, otherwise the last. It returns the policy itself and
// false when nothing is to be cut, and when the policy is no ACL or its settings
// are no JSON object.
func (p EndpointPolicy) Documented() (EndpointPolicy, bool) {
	if !strings.EqualFold(p.Type, PolicyTypeACL) {
		return p, false
	}
	fields, ok := readObject(p.Settings)
	if !ok {
		return p, false
	}
	var b bytes.Buffer
	kept := 0
	for _, name := range documentedFields {
		at := lastIndex(fields, func(key string) bool { return key == name })
		if at < 0 {
			at = lastIndex(fields, func(key string) bool { return strings.EqualFold(key, name) })
		}
		if at < 0 {
			continue
		}
		if kept > 0 {
			b.WriteByte(',')
		}
		kept++
		b.WriteString(`"` + name + `":`)
		b.Write(fields[at].value)
	}
	if kept == len(fields) {
		return p, false
	}
	p.Settings = slices.Concat([]byte("{"), b.Bytes(), []byte("}"))
	return p, true
}

// objectField is one field of a JSON object.
type objectField struct {
	key   string
	value json.RawMessage
}

// lastIndex returns the place of the last field with such a key, or -1.
func lastIndex(fields []objectField, is func(key string) bool) int {
	for i, f := range slices.Backward(fields) {
		if is(f.key) {
			return i
		}
	}
	return -1
}

// readObject returns the fields of a JSON object in their order; false when the
// text is anything else.
func readObject(text []byte) ([]objectField, bool) {
	if !json.Valid(text) { // one value, and nothing after it
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, false
	}
	var out []objectField
	for d.More() {
		key, err := d.Token()
		name, isText := key.(string)
		var value json.RawMessage
		if err != nil || !isText || d.Decode(&value) != nil {
			return nil, false
		}
		out = append(out, objectField{name, value})
	}
	return out, true
}

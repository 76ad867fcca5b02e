package hns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ACL decodes the policy without changing its spelling. HNS documents its format by examples only,
// so ACL is lenient: it ignores unknown fields and null, accepts a string for a number and a number
// for a string, and joins a list of strings or numbers with commas. It fails if the policy is not
// an ACL, or if a field has any other form.
func (p EndpointPolicy) ACL() (ACL, error) {
	if !strings.EqualFold(p.Type, PolicyTypeACL) {
		return ACL{}, fmt.Errorf("endpoint policy of type %q is no ACL", p.Type)
	}
	var a ACL
	err := json.Unmarshal(p.Settings, &a)
	var otherType *json.UnmarshalTypeError
	if errors.As(err, &otherType) { // rare; the lenient decoder is slower
		a, err = decodeLoose(p.Settings)
	}
	if err != nil {
		return ACL{}, fmt.Errorf("decode ACL: %w", err)
	}
	return a, nil
}

// decodeLoose decodes an ACL in which some fields have another JSON type than expected.
func decodeLoose(settings []byte) (ACL, error) {
	var loose struct {
		ACL // JSON decodes the fields below instead of the fields of ACL with the same names

		Protocols       looseText
		LocalAddresses  looseText
		RemoteAddresses looseText
		LocalPorts      looseText
		RemotePorts     looseText
		Priority        looseText
	}
	err := json.Unmarshal(settings, &loose)
	a := loose.ACL
	a.Protocols = string(loose.Protocols)
	a.LocalAddresses, a.RemoteAddresses = string(loose.LocalAddresses), string(loose.RemoteAddresses)
	a.LocalPorts, a.RemotePorts = string(loose.LocalPorts), string(loose.RemotePorts)
	if priority := strings.TrimSpace(string(loose.Priority)); err == nil && priority != "" {
		var n uint64
		n, err = strconv.ParseUint(priority, 10, 16)
		a.Priority = uint16(n)
	}
	if err != nil {
		return ACL{}, err
	}
	return a, nil
}

// looseText is a text that may be a JSON string, a number, null, or an array of these, which is
// joined with commas.
type looseText string

// UnmarshalJSON implements json.Unmarshaler.
func (l *looseText) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return err
	}
	items, isList := value.([]any)
	if !isList {
		items = []any{value}
	}
	var texts []string
	for _, item := range items {
		switch text := fmt.Sprint(item); item.(type) {
		case nil:
		case string, json.Number:
			if text != "" {
				texts = append(texts, text)
			}
		default:
			return fmt.Errorf("%s is neither a text nor a number", text)
		}
	}
	*l = looseText(strings.Join(texts, ","))
	return nil
}

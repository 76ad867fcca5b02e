package hns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ACL decodes the policy as it is spelt: fields that are not known here are left
// out, a number may be a string, a string a number, a list of strings or numbers
// is joined with commas, and null is absent. How HNS writes them is documented by
// examples only. It fails when the policy is not an ACL, or a field is anything
// else.
func (p EndpointPolicy) ACL() (ACL, error) {
	if !strings.EqualFold(p.Type, PolicyTypeACL) {
		return ACL{}, fmt.Errorf("endpoint policy of type %q is no ACL", p.Type)
	}
	var a ACL
	err := json.Unmarshal(p.Settings, &a)
	var otherType *json.UnmarshalTypeError
	if errors.As(err, &otherType) { // seldom, and slower
		a, err = decodeLoose(p.Settings)
	}
	if err != nil {
		return ACL{}, fmt.Errorf("decode ACL: %w", err)
	}
	return a, nil
}

// decodeLoose decodes an ACL of which some fields have another JSON type.
func decodeLoose(settings []byte) (ACL, error) {
	var loose struct {
		ACL // the fields that are named below are decoded there and not here

		Protocols       looseList
		LocalAddresses  looseList
		RemoteAddresses looseList
		LocalPorts      looseList
		RemotePorts     looseList
		Priority        looseNumber
	}
	if err := json.Unmarshal(settings, &loose); err != nil {
		return ACL{}, err
	}
	a := loose.ACL
	a.Protocols = string(loose.Protocols)
	a.LocalAddresses, a.RemoteAddresses = string(loose.LocalAddresses), string(loose.RemoteAddresses)
	a.LocalPorts, a.RemotePorts = string(loose.LocalPorts), string(loose.RemotePorts)
	a.Priority = uint16(loose.Priority)
	return a, nil
}

// looseList is a comma separated list that may be a JSON string, a number, null,
// or an array of these.
type looseList string

// UnmarshalJSON implements json.Unmarshaler.
func (l *looseList) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte("[")) {
		text, err := looseText(b)
		*l = looseList(text)
		return err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(b, &items); err != nil {
		return err
	}
	texts := make([]string, 0, len(items))
	for _, item := range items {
		text, err := looseText(item)
		if err != nil {
			return err
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	*l = looseList(strings.Join(texts, ","))
	return nil
}

// looseNumber is a number that may be a JSON string or null.
type looseNumber uint16

// UnmarshalJSON implements json.Unmarshaler.
func (n *looseNumber) UnmarshalJSON(b []byte) error {
	text, err := looseText(b)
	if err != nil || text == "" {
		return err
	}
	number, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16)
	*n = looseNumber(number)
	return err
}

// looseText returns what a JSON string, number or null says.
func looseText(b []byte) (string, error) {
	var text *string
	if err := json.Unmarshal(b, &text); err == nil {
		if text == nil {
			return "", nil
		}
		return *text, nil
	}
	var number json.Number
	err := json.Unmarshal(b, &number)
	return number.String(), err
}

package hnsd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// schemaVersion is that of the HCN documents.
type schemaVersion struct{ Major, Minor int }

var v2 = schemaVersion{Major: 2}

// filter is the one of a query; it comes as JSON inside a string. What is nil
// filters nothing. Its keys are of the older schema.
type filter struct {
	Name           *string
	ID             *string
	State          *uint16
	VirtualNetwork *string
}

// parseQuery reads a HostComputeQuery.
func parseQuery(text string) (filter, error) {
	var q struct {
		SchemaVersion schemaVersion
		Flags         uint32
		Filter        string
	}
	var f filter
	if err := decode(text, &q); err != nil {
		return f, err
	}
	if q.SchemaVersion.Major != v2.Major {
		return f, refuse(codeInvalidJSON, "schema version %d of a query", q.SchemaVersion.Major)
	}
	if q.Filter == "" {
		return f, nil
	}
	return f, decode(q.Filter, &f)
}

// decode reads strict JSON: a key that nobody knows is a mistake of the client.
func decode(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return refuse(codeInvalidJSON, "%v in %.200q", err, text)
	}
	if _, err := d.Token(); err != io.EOF { //nolint:errorlint // the decoder's own
		return refuse(codeInvalidJSON, "more than one value in %.200q", text)
	}
	return nil
}

// encode returns the output with v as JSON. Settings in it are as they were
// sent, but for blanks between tokens, which HNS does not keep either.
func encode(v any) reply {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: what the server shows always encodes: " + err.Error())
	}
	text := strings.TrimSuffix(b.String(), "\n")
	return reply{output: &text}
}

// matches compares a text of a filter; nil matches everything.
func matches(want *string, have string) bool { return want == nil || *want == have }

// matchesID is for GUIDs, in which case does not count.
func matchesID(want *string, have string) bool { return want == nil || strings.EqualFold(*want, have) }

// modification is a Modify request of any kind.
type modification struct {
	ResourceType string
	RequestType  string
	Settings     json.RawMessage
}

// policies are the settings of a modification of policies.
type policies struct {
	Policies []hns.EndpointPolicy // of networks too: they have the same shape
}

// parsePolicies reads a request for policies. Settings without any policy are
// an empty object: clients leave the list out then.
func parsePolicies(text string) (hns.Verb, []hns.EndpointPolicy, error) {
	var m modification
	if err := decode(text, &m); err != nil {
		return "", nil, err
	}
	if m.ResourceType != "Policy" {
		return "", nil, refuse(codeRequestUnsupported, "resource type %q", m.ResourceType)
	}
	var p policies
	if err := decode(string(m.Settings), &p); err != nil {
		return "", nil, err
	}
	return hns.Verb(m.RequestType), p.Policies, nil
}

// checkKeys refuses an object that has a key other than these, or spells one
// of them in another way: HNS takes Id, not ID, for example (acn
// policy_windows.go:38-43), and json does not tell them apart.
func checkKeys(settings json.RawMessage, keys ...string) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(settings, &object); err != nil {
		return refuse(codeInvalidJSON, "%v in %.200q", err, settings)
	}
	for key := range object {
		if !slices.Contains(keys, key) {
			return refuse(codeInvalidJSON, "unknown key %q in %.200q", key, settings)
		}
	}
	return nil
}

// hnsCall does the one request of the older API that anybody makes, and one of
// ours.
func (s *Server) hnsCall(_ context.Context, r request) (reply, error) {
	if r.text[0] == "GET "+SpentPath {
		return encode(s.takeSpent(r.pid)), nil
	}
	if r.text[0] != "GET /globals/version" {
		return encode(map[string]any{"Success": false, "Error": fmt.Sprintf("no such request: %s", r.text[0])}), nil
	}
	return encode(map[string]any{"Success": true, "Output": schemaVersion{s.major, s.minor}}), nil
}

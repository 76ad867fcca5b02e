package drift

import (
	"fmt"
	"strings"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// The kinds of what others change.
const (
	Set = "set"
	ACL = "acl"
)

// Subject is what somebody else can change: a set, or the rules of an endpoint.
type Subject struct {
	set      ipsets.Name
	endpoint string // GUID; "" for a set
}

// OfSet returns the subject that is a set.
func OfSet(n ipsets.Name) Subject { return Subject{set: n} }

// OfEndpoint returns the subject that is the rules of an endpoint, by its GUID.
func OfEndpoint(id string) Subject { return Subject{endpoint: id} }

// Set returns the set, and false when the subject is an endpoint's rules.
func (s Subject) Set() (ipsets.Name, bool) { return s.set, s.endpoint == "" }

// Endpoint returns the GUID of the endpoint, "" when the subject is a set.
func (s Subject) Endpoint() string { return s.endpoint }

// Kind returns Set or ACL.
func (s Subject) Kind() string {
	if s.endpoint == "" {
		return Set
	}
	return ACL
}

// String returns the name of the set or the GUID of the endpoint.
func (s Subject) String() string {
	if s.endpoint == "" {
		return s.set.String()
	}
	return s.endpoint
}

// setInWords says what somebody did to a set.
func setInWords(d ipsets.Drift) string {
	switch {
	case d.Gone:
		return "gone"
	case d.Appeared:
		return "made by somebody else"
	case d.Retyped:
		return "of another type"
	}
	return inWords("member", d.Missing, d.Added, "added")
}

// inWords is "2 members missing, 1 added".
func inWords(noun string, missing, others int, word string) string {
	var parts []string
	for _, part := range []struct {
		n    int
		word string
	}{{missing, "missing"}, {others, word}} {
		switch {
		case part.n == 0:
		case len(parts) > 0:
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.word))
		case part.n == 1:
			parts = append(parts, fmt.Sprintf("1 %s %s", noun, part.word))
		default:
			parts = append(parts, fmt.Sprintf("%d %ss %s", part.n, noun, part.word))
		}
	}
	return strings.Join(parts, ", ")
}

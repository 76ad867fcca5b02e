package acl

import (
	"fmt"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Step is one HNS request for an endpoint. An Add has the ACLs to add. An Update has the complete
// list of our ACLs; the policies of other programs come from the read right before it.
type Step struct {
	Verb hns.Verb
	ACLs []hns.ACL
}

// RuleText renders a rule in one line, as plans show it.
func RuleText(a hns.ACL) string {
	parts := []string{fmt.Sprint(a.Priority), strings.ToLower(string(a.Action)), strings.ToLower(string(a.Direction)), a.ID}
	for _, f := range []struct{ name, value string }{
		{"proto", a.Protocols}, {"local", a.LocalAddresses}, {"remote", a.RemoteAddresses},
		{"lports", a.LocalPorts}, {"rports", a.RemotePorts},
	} {
		if f.value != "" {
			parts = append(parts, f.name+"="+f.value)
		}
	}
	return strings.Join(parts, " ")
}

// Change is the input of Plan for one endpoint.
type Change struct {
	Actual  []hns.ACL // ours, known to be there
	Desired []hns.ACL
	Unused  []hns.ACL // need not be there, but may stay
	// Shield closes an endpoint that is open. It is empty for any other endpoint.
	Shield []hns.ACL
	Batch  int  // the most ACLs of an Add
	Whole  bool // an Add may add a second copy of an ACL that is there
}

// Plan returns the requests that turn the actual ACLs into the desired ones, none if they mean the
// same. ACLs that are only added are one Add, if they fit into one. Any other change is one Update
// with the complete list, so that no request shows a change by half. An Update for many additions
// may take long: an endpoint that is open gets its shield before.
func Plan(c Change) []Step {
	added, removed := Diff(c.Actual, c.Desired)
	_, removed = Diff(removed, c.Unused)
	update := Step{Verb: hns.Update, ACLs: c.Desired}
	switch {
	case len(removed) > 0:
		return []Step{update}
	case len(added) == 0:
		return nil
	case c.Whole:
		return []Step{update}
	case len(added) <= c.Batch:
		return []Step{{Verb: hns.Add, ACLs: added}}
	}
	if missing, _ := Diff(c.Actual, c.Shield); len(missing) > 0 {
		return []Step{{Verb: hns.Add, ACLs: missing}, update}
	}
	return []Step{update}
}

// Diff compares two lists by meaning, as multisets.
func Diff(have, want []hns.ACL) (added, removed []hns.ACL) {
	count := make(map[hns.ACL]int, len(have)) // by meaning
	for _, a := range have {
		count[a.Canonical()]++
	}
	for _, a := range want {
		if c := a.Canonical(); count[c] > 0 {
			count[c]--
		} else {
			added = append(added, a)
		}
	}
	for _, a := range have {
		if c := a.Canonical(); count[c] > 0 {
			count[c]--
			removed = append(removed, a)
		}
	}
	return added, removed
}

// Same reports whether two lists mean the same, in whatever order.
func Same(a, b []hns.ACL) bool {
	added, removed := Diff(a, b)
	return len(added)+len(removed) == 0
}

// Canonical returns the rules in the form in which HNS shows them.
func Canonical(acls []hns.ACL) []hns.ACL {
	out := make([]hns.ACL, len(acls))
	for i, a := range acls {
		out[i] = a.Canonical()
	}
	return out
}

// BlocksAll reports whether a rule closes its direction, except for the rules before it.
func BlocksAll(a hns.ACL) bool { return a.Action == hns.Block && a.MatchesAll() }

// DirectionOf has the HNS direction for each direction of a policy.
var DirectionOf = [...]hns.DirectionType{policy.Ingress: hns.In, policy.Egress: hns.Out}

package acl

import (
	"fmt"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Step is one HNS request for an endpoint. For Add, ACLs are what is added; for
// Update they are the complete list of ours, the others' policies come from the
// read right before.
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
	Whole  bool // an Add may add a second copy of what is there
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

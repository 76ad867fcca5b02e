package ui

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// setEntry is a set in numbers.
type setEntry struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Nested  bool      `json:"nested"`
	Members int       `json:"members"`
	Holders int       `json:"holders"`
	Pins    int       `json:"pins"`
	InHNS   bool      `json:"inHNS"`
	Behind  bool      `json:"behind"` // HNS has it not as it should be
	Since   time.Time `json:"since,omitzero"`
}

func entryOf(s state.Set) setEntry {
	return setEntry{
		ID: s.ID, Name: s.Name, Nested: s.Type == string(hns.NestedIPSet),
		Members: len(s.Members), Holders: len(s.Holders), Pins: len(s.Pins), InHNS: s.InHNS,
		Behind: s.Unknown || len(s.Missing)+len(s.Surplus) > 0, Since: s.Since,
	}
}

// setDetail is a set with what holds it and what it has.
type setDetail struct {
	setEntry
	Unknown bool `json:"unknown"`
	// Of more than maxLinks the rest is counted only.
	HeldBy    []link         `json:"heldBy"`
	HeldByAll map[string]int `json:"heldByAll"` // by kind
	Has       []link         `json:"has"`
	HasAll    map[string]int `json:"hasAll"`
}

// maxLinks is how many links one side of a set has at most.
const maxLinks = 500

// The kinds of links.
const (
	linkPod      = "pod"
	linkEndpoint = "endpoint" // without a pod
	linkSet      = "set"
	linkPolicy   = "policy"
	linkPort     = "port" // a named one, that policies ask for
	linkAddress  = "address"
)

// link is one end of an edge of the graph.
type link struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	ID   string `json:"id,omitempty"` // of a set or endpoint
	Addr string `json:"address,omitempty"`
	// Roles are what a holder does: words of the dump, and pin.
	Roles []string `json:"roles,omitempty"`
	// State is missing for a member that HNS lacks, surplus for one that only HNS has.
	State string `json:"state,omitempty"`
}

// showSet finds a set by its id, or by its name.
func showSet(s *snapshot, r *http.Request) (any, error) {
	id, n := r.PathValue("id"), s.names()
	i := slices.IndexFunc(s.dump.Sets, func(set state.Set) bool { return set.ID == id })
	if i < 0 && n.sets[id] != "" {
		i = slices.IndexFunc(s.dump.Sets, func(set state.Set) bool { return set.ID == n.sets[id] })
	}
	if i < 0 {
		return nil, notFound("there is no set %s", id)
	}
	set := s.dump.Sets[i]
	out := setDetail{setEntry: entryOf(set), Unknown: set.Unknown}
	out.HeldBy, out.HeldByAll = few(n.holders(set))
	out.Has, out.HasAll = few(n.members(set))
	return out, nil
}

// few keeps as many links as anybody looks at, those in front that are not as they should be,
// and counts all by kind.
func few(all []link) ([]link, map[string]int) {
	counts := map[string]int{}
	for _, l := range all {
		counts[l.Kind]++
	}
	if len(all) <= maxLinks {
		return all, counts
	}
	slices.SortStableFunc(all, func(a, b link) int { return cmp.Compare(a.calm(), b.calm()) })
	return all[:maxLinks:maxLinks], counts
}

// calm returns 0 for a link that needs attention, and otherwise a larger number.
func (l link) calm() int {
	applied, wanted := slices.Contains(l.Roles, ipsets.RefApplied.String()), slices.Contains(l.Roles, ipsets.RefRule.String())
	if l.State != "" || slices.Contains(l.Roles, pinRole) || applied != wanted {
		return 0
	}
	return 1
}

// names finds objects of a dump by what others call them.
type names struct {
	pods map[string]string // by endpoint
	own  map[string]string // pods by address
	sets map[string]string // ids by name
	trouble
}

func newNames(d state.Dump) *names {
	n := &names{pods: map[string]string{}, own: map[string]string{}, sets: map[string]string{}, trouble: newTrouble(&d)}
	for _, ep := range d.Endpoints {
		n.pods[ep.ID] = ep.Pod
	}
	for _, p := range d.Pods {
		if p.Owner {
			n.own[p.Addr] = p.Pod
		}
	}
	for _, s := range d.Sets {
		// Of two sets of one name the one that somebody holds is meant.
		if _, known := n.sets[s.Name]; !known || len(s.Holders) > 0 {
			n.sets[s.Name] = s.ID
		}
	}
	return n
}

// pinRole is what a holder does that the dump lists apart.
var pinRole = ipsets.RefPin.String()

// holders returns who holds or pins a set, each once.
func (n *names) holders(s state.Set) []link {
	out := []link{}
	add := func(role string, l link) {
		i := slices.IndexFunc(out, func(o link) bool { return o.Kind == l.Kind && o.Name == l.Name && o.ID == l.ID })
		if i < 0 {
			i, out = len(out), append(out, l)
		}
		out[i].Roles = append(out[i].Roles, role)
	}
	for _, h := range s.Holders {
		role, owner, _ := strings.Cut(h, " ")
		switch role {
		case ipsets.RefList.String():
			add(role, link{Kind: linkSet, Name: owner, ID: n.sets[owner]})
		case ipsets.RefSelector.String():
			if port, ok := strings.CutPrefix(owner, "port "); ok {
				add(role, link{Kind: linkPort, Name: strings.TrimSuffix(port, "@")})
			} else {
				add(role, link{Kind: linkPolicy, Name: shownName(owner)})
			}
		default:
			add(role, n.endpoint(owner))
		}
	}
	for _, id := range s.Pins {
		add(pinRole, n.endpoint(id))
	}
	slices.SortStableFunc(out, func(a, b link) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return out
}

func (n *names) endpoint(id string) link {
	if pod := n.pods[id]; pod != "" {
		return link{Kind: linkPod, Name: pod, ID: id}
	}
	return link{Kind: linkEndpoint, Name: id, ID: id}
}

// members returns what a set has or should have.
func (n *names) members(s state.Set) []link {
	out := make([]link, 0, len(s.Members)+len(s.Surplus))
	missing := map[string]bool{}
	for _, m := range s.Missing {
		missing[m] = true
	}
	add := func(member, state string) {
		l := link{Kind: linkAddress, Name: member, State: state}
		switch {
		case s.Type == string(hns.NestedIPSet):
			l.Kind, l.ID = linkSet, n.sets[member]
		case n.own[member] != "":
			l.Kind, l.Name, l.Addr = linkPod, n.own[member], member
		}
		out = append(out, l)
	}
	for _, m := range s.Members {
		state := ""
		if missing[m] {
			state = "missing"
		}
		delete(missing, m)
		add(m, state)
	}
	for _, m := range s.Missing { // the permanent member is in no list of members
		if missing[m] {
			add(m, "missing")
		}
	}
	for _, m := range s.Surplus {
		add(m, "surplus")
	}
	slices.SortStableFunc(out, func(a, b link) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

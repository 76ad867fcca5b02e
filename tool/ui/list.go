package ui

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/tool/explain"
)

// maxListed is how many objects one list has at most, whatever the cluster has; a filter
// finds the others.
const maxListed = 200

// listing is the part of a list that somebody asked for, with what needs a look in front.
type listing[T any] struct {
	Entries []T `json:"entries"`
	Total   int `json:"total"`
	Found   int `json:"found"`   // of them the filter lets through
	Trouble int `json:"trouble"` // of them need a look
}

// listed is one object in a list.
type listed interface {
	text() string // what a filter looks at
	rank() int    // quiet ones are last
}

// quiet is the rank of what needs no look.
const quiet = 9

// newListing asks for every object once, and keeps as many as a list has.
func newListing[T listed](n int, at func(int) T, filter string) listing[T] {
	filter = strings.ToLower(filter)
	var found []T
	out := listing[T]{Total: n}
	for i := range n {
		x := at(i)
		if x.rank() < quiet {
			out.Trouble++
		}
		if strings.Contains(strings.ToLower(x.text()), filter) {
			found = append(found, x)
		}
	}
	slices.SortStableFunc(found, func(a, b T) int { return cmp.Compare(a.rank(), b.rank()) })
	out.Found = len(found)
	out.Entries = append([]T{}, found[:min(len(found), maxListed)]...)
	return out
}

func filterOf(r *http.Request) string { return r.URL.Query().Get("filter") }

// rank returns the position in a list: trouble comes first, the worst in front. Pods of
// other nodes and policies without pods of this node come last.
func (v verdict) rank() int {
	if i := slices.Index([]inForce{isRefused, isLeftOut, isPending, isUnused}, v.Word); i >= 0 {
		return i
	}
	if v.Word == isElsewhere || v.Word == isIdle {
		return quiet + 1
	}
	return quiet
}

func listPods(s *snapshot, r *http.Request) (any, error) {
	n := s.findings()
	return newListing(len(s.dump.Pods), func(i int) podEntry {
		p := &s.dump.Pods[i]
		return podEntry{p.Pod, explain.Owner(p), p.Addr, p.Local, n.podState(p)}
	}, filterOf(r)), nil
}

func (e podEntry) text() string {
	return strings.Join([]string{e.Pod, e.Made, e.Addr, string(e.State.Word)}, " ")
}
func (e podEntry) rank() int { return e.State.rank() }

func listPolicies(s *snapshot, r *http.Request) (any, error) {
	all := s.policies()
	return newListing(len(all), func(i int) policyEntry { return all[i] }, filterOf(r)), nil
}

func (e policyEntry) text() string {
	return strings.Join([]string{e.Policy, e.Kind, string(e.State.Word)}, " ")
}
func (e policyEntry) rank() int { return e.State.rank() }

package ui

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/tool/explain"
)

// maxListed limits the objects in a list. Users find further objects with a filter.
const maxListed = 200

// listing is the part of a list that matches a filter, with problems first.
type listing[T any] struct {
	Entries []T `json:"entries"`
	Total   int `json:"total"`
	Found   int `json:"found"`   // entries that match the filter
	Trouble int `json:"trouble"` // entries with a problem, in the whole list
}

// listed is one object in a list.
type listed interface {
	text() string // the text that a filter searches
	rank() int    // the position; from quiet on without problem
}

// quiet is the lowest rank of entries without problems.
const quiet = 9

// newListing calls at once for each of n objects, and keeps at most maxListed matching ones.
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

// rank returns the position in a list: problems first, the worst before others. Pods of other nodes and
// policies without pods of this node come last.
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

package explain

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// SetWords says in words who is in a set, by its name: "pods with app=web". It returns
// "" for a name that says nothing.
func SetWords(name string) string {
	c, ok := anyCondition(name)
	if !ok {
		return ""
	}
	return whoIs([]condition{c})
}

// anyCondition reads a name of which it is not known whether the set is nested.
func anyCondition(name string) (condition, bool) {
	if c, ok := conditionOf(name, false); ok {
		return c, true
	}
	return conditionOf(name, true)
}

// PeerWords is Peer with sets in words: "from pods with app=web in namespace shop". What
// it cannot put into words it leaves as Peer has it.
func (names SetNames) PeerWords(a hns.ACL) string {
	peer, word := a.RemoteAddresses, "to"
	if a.Direction == hns.In {
		word = "from"
		if len(a.SetIDs()) > 0 {
			peer = a.LocalAddresses // with sets, the source
		}
	}
	if peer == "" || len(a.SetIDs()) == 0 {
		return names.Peer(a)
	}
	var all []condition
	for _, name := range names.Of(strings.Split(peer, ",")) {
		c, ok := anyCondition(name)
		if !ok {
			return names.Peer(a)
		}
		all = append(all, c)
	}
	words := whoIs(all)
	if words == "" {
		return names.Peer(a)
	}
	return word + " " + words
}

// whoIs puts conditions that all have to hold into words, "" where it has none.
func whoIs(all []condition) string {
	var with, of, serves []string
	for _, c := range all {
		switch c.kind {
		case ipsets.KindNamespace:
			of = append(of, "in namespace "+c.namespace)
		case ipsets.KindPodLabel, ipsets.KindNestedLabel, ipsets.KindPodSelector:
			if c.namespace != "" {
				of = append(of, "in namespace "+c.namespace)
			}
			with = append(with, requirements(c.reqs)...)
		case ipsets.KindNamespaceSelector:
			if len(c.reqs) == 0 {
				of = append(of, "in any namespace")
				continue
			}
			of = append(of, "in namespaces with "+list(requirements(c.reqs), "and"))
		case ipsets.KindNamedPort:
			serves = append(serves, portWords(c))
		case ipsets.KindInBlocks, ipsets.KindNodes, ipsets.KindDoubt, ipsets.KindDoubtAddrs, ipsets.KindEmpty:
			if len(all) != 1 {
				return ""
			}
			return addressWords(c)
		default:
			return ""
		}
	}
	out := "pods"
	if len(with) > 0 {
		slices.Sort(with)
		out += " with " + list(slices.Compact(with), "and")
	}
	slices.Sort(of)
	for _, words := range append(slices.Compact(of), serves...) {
		out += " " + words
	}
	return out
}

// portWords is of a named port: that a pod serves it.
func portWords(c condition) string {
	name, number, _ := strings.Cut(c.port, ":")
	out := fmt.Sprintf("whose port %s is %s", name, number)
	if c.block != "" {
		out += " and are within " + blockWords(c.block)
	}
	return out
}

func addressWords(c condition) string {
	switch {
	case c.kind == ipsets.KindInBlocks:
		return "pods and nodes within " + blockWords(c.block)
	case c.kind == ipsets.KindEmpty:
		return "nobody"
	case c.kind == ipsets.KindDoubt || c.kind == ipsets.KindDoubtAddrs:
		return "addresses that several pods claim"
	case len(c.reqs) == 0:
		return "nodes"
	}
	return "nodes with " + list(requirements(c.reqs), "and")
}

func blockWords(blocks string) string {
	all := strings.Split(blocks, ",")
	if more := len(all) - shownBlocks; more > 0 {
		all = append(all[:shownBlocks:shownBlocks], fmt.Sprintf("%d more", more))
	}
	return list(all, "or")
}

// requirements words what is asked of labels.
func requirements(reqs []labels.Requirement) []string {
	var out []string
	for _, r := range reqs {
		values := r.Values().List()
		switch text := r.String(); {
		case len(values) == 1 && text == r.Key()+" in ("+values[0]+")":
			out = append(out, r.Key()+"="+values[0])
		case text == r.Key():
			out = append(out, "a label "+r.Key())
		case text == "!"+r.Key():
			out = append(out, "no label "+r.Key())
		default:
			out = append(out, text)
		}
	}
	return out
}

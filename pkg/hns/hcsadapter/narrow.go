package hcsadapter

import "strings"

// narrow decides whether HNS is asked for the endpoints of our network alone. A
// filter with a State is known to work, one with a VirtualNetwork too (hcsshim's
// ListEndpointsOfNetwork); whether HNS heeds both in one filter is not, so that is
// an observation, made anew in each process and for each network.
//
// The zero value has observed nothing. It is not safe for concurrent use.
type narrow struct {
	verdict verdict
	// Of the last enumeration in which both filters agreed as far as they can: the
	// GUIDs that the filter with the network returned, and those that it left out.
	kept, left map[string]bool
	ours       map[string]bool // of them those that a read has shown to be of our network
}

// verdict is what is known of the filter with the network.
type verdict uint8

const (
	unproven verdict = iota // the other filter is asked, this one besides if that tells anything
	proven                  // it is asked alone
	broken                  // it is not asked
)

// tells reports whether an answer to the filter with the network tells anything of
// it: that takes an endpoint which is known to be ours. The first enumeration of a
// process knows none, so it asks the other filter alone.
func (n *narrow) tells() bool { return n.verdict == unproven && len(n.ours) > 0 }

// listed takes what the filters without and with the network returned, by State.
// The one without is asked first, so what comes meanwhile is in the other answer
// alone: that enumeration tells nothing, as HNS might also have ignored the State.
// Nor does one in which the filter with the network failed, which is shorter then.
func (n *narrow) listed(all, network [][]string) {
	if n.verdict != unproven {
		return
	}
	there := keys(merged(all))
	for id := range n.ours {
		if !there[id] {
			delete(n.ours, id)
		}
	}
	if len(network) < len(all) {
		return
	}
	kept, left := map[string]bool{}, map[string]bool{}
	for i := range all {
		here := keys(all[i])
		for id := range keys(network[i]) {
			if !here[id] {
				return
			}
			kept[id] = true
		}
		for id := range here {
			left[id] = true
		}
	}
	for id := range kept {
		delete(left, id) // it has changed its State between the two
	}
	n.kept, n.left = kept, left
	n.decide()
}

// isOurs takes that a read shows an endpoint to be a local one of our network.
func (n *narrow) isOurs(id string) {
	if n.verdict == broken {
		return
	}
	if n.ours == nil {
		n.ours = map[string]bool{}
	}
	if id = strings.ToLower(id); n.verdict == unproven || n.left[id] {
		n.ours[id] = true
	}
	n.decide()
}

// decide finds the filter broken when it left out one that is ours, even when it
// has been believed for a while, and proven when it returned one.
func (n *narrow) decide() {
	for id := range n.ours {
		switch {
		case n.left[id]:
			*n = narrow{verdict: broken}
			return
		case n.kept[id]:
			n.verdict = proven
		}
	}
	if n.verdict == proven {
		n.kept, n.ours = nil, nil
	}
}

// keys returns GUIDs as keys: their case does not count.
func keys(ids []string) map[string]bool {
	out := map[string]bool{}
	for _, id := range ids {
		out[strings.ToLower(id)] = true
	}
	return out
}

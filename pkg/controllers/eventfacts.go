package controllers

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

const (
	// reasonProgrammed is that of the Event which says that all warnings passed.
	reasonProgrammed state.Reason = "Programmed"
	// tellPatience is how long a retried failure has to last until it is sent: one failed call
	// is no news.
	tellPatience = time.Minute
)

// topic is what a fact is about. A policy has one fact of a topic at a time, for all its
// warnings of that topic.
type topic struct {
	reason state.Reason
	// pods: not the policy is at fault, but pods are not programmed that it selects.
	pods bool
	// remote is set for a warning about pods of other nodes. The agents of all nodes report it.
	remote bool
}

// patience returns how long the topic has to be active until it is sent. The pods of a policy
// may be written right after it.
func (t topic) patience() time.Duration {
	if t.pods || t.reason == state.ReasonHNSUnavailable {
		return tellPatience
	}
	return 0
}

// everywhere reports whether a warning follows from the policy alone, so that every node
// sends the same.
func (t topic) everywhere() bool {
	if t.remote {
		return true
	}
	switch t.reason {
	case state.ReasonHNSRejected, state.ReasonHNSUnavailable, state.ReasonForeignWrites, state.ReasonAddressContested,
		state.ReasonIPv6Blocked, state.ReasonNodesUnknown: // by this node's agent
		return false
	case state.ReasonSelectsNothing, state.ReasonOverBudget: // where it follows from pods too, every node says it that has such pods
	}
	return true
}

// account is what there is to send of a topic.
type account struct {
	text string
	// what identifies the account where the policy itself is at fault: a changed text is
	// sent anew. It is empty where pods are not programmed, as the list of such pods
	// changes while HNS is in trouble, and is no news.
	what string
}

// activeWarnings is the active warnings, by policy and topic.
type activeWarnings struct {
	accounts map[policy.Key]map[topic]account
	// away: sets cannot be written, so nobody knows what is programmed.
	away bool
}

// collect sorts warnings by policy. A warning on a pod concerns every policy that selects
// the pod. A policy gets one account of each topic, with a count, as whoever writes a
// policy may give it as many faults as fit into an object.
func collect(warnings []state.Warning, selecting func(desired.PodKey) []policy.Key) activeWarnings {
	texts := map[policy.Key]map[topic][]string{}
	note := func(key policy.Key, t topic, text string) {
		if texts[key] == nil {
			texts[key] = map[topic][]string{}
		}
		texts[key][t] = append(texts[key][t], text)
	}
	s := activeWarnings{accounts: map[policy.Key]map[topic]account{}}
	for _, w := range warnings {
		namespace, name, _ := strings.Cut(w.Object, "/")
		switch w.Kind {
		case "NetworkPolicy":
			note(policy.Key{Namespace: namespace, Name: name}, topic{reason: w.Reason}, w.Message)
		case "ClusterNetworkPolicy":
			note(policy.Key{Name: w.Object}, topic{reason: w.Reason}, w.Message)
		case "Pod", desired.RemotePod:
			for _, key := range selecting(desired.PodKey{Namespace: namespace, Name: name}) {
				note(key, topic{w.Reason, true, w.Kind == desired.RemotePod}, fmt.Sprintf("%s pod %s: %s", inWhat(w.Reason), name, w.Message))
			}
		case "Node":
			s.away = true
		}
	}
	for key, topics := range texts {
		s.accounts[key] = map[topic]account{}
		for t, all := range topics {
			s.accounts[key][t] = t.account(all)
		}
	}
	return s
}

// inWhat says what a warning on a pod means for the policies that select it.
func inWhat(reason state.Reason) string {
	switch reason {
	case state.ReasonAddressContested:
		return "in doubt for"
	case state.ReasonIPv6Blocked:
		return "stricter than written for"
	default:
	}
	return "not in force for"
}

// account makes one of all texts of a topic.
func (t topic) account(texts []string) account {
	a := account{text: texts[0]}
	switch n := len(texts); {
	case n > 1 && t.pods:
		a.text = fmt.Sprintf("in %d pods, one of them: %s", n, texts[0])
	case n > 1:
		a.text = fmt.Sprintf("%d times, the first: %s", n, texts[0])
	}
	switch {
	case t.pods:
	case len(texts) == 1:
		a.what = texts[0]
	default:
		h := sha256.New()
		for _, text := range slices.Sorted(slices.Values(texts)) {
			fmt.Fprintf(h, "%q", text)
		}
		a.what = fmt.Sprintf("%x", h.Sum(nil))
	}
	return a
}

package events

import (
	"fmt"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/policy"
)

const (
	// reasonProgrammed is that of the Event which says that all warnings passed.
	reasonProgrammed dataplane.Reason = "Programmed"
	// patience is how long something must have failed that is tried again: one
	// failed call is no news.
	patience = time.Minute
)

// topic is what a fact is about. A fact of another topic is told anew.
type topic struct {
	reason dataplane.Reason
	// message is that of the warning; "" stands for all pods that are not
	// programmed for the reason: which they are changes while HNS is in trouble.
	message string
}

// patience returns how long the topic must stand until it is told.
func (t topic) patience() time.Duration {
	if t.message == "" || t.reason == dataplane.ReasonHNSUnavailable {
		return patience
	}
	return 0
}

// everywhere reports whether a warning follows from the policy alone, so that
// every node has the same to tell.
func (t topic) everywhere() bool {
	switch t.reason {
	case dataplane.ReasonHNSRejected, dataplane.ReasonHNSUnavailable, dataplane.ReasonForeignWrites, dataplane.ReasonAddressContested:
		return false
	}
	return true
}

// standing is what there is to tell: a text by policy and topic.
type standing struct {
	texts map[policy.Key]map[topic]string
	// away: sets cannot be written, so that nobody knows what is programmed.
	away bool
}

// collect sorts warnings by policy. Those on a pod concern every policy that
// selects it: each gets one fact, however many pods there are.
func collect(warnings []dataplane.Warning, selecting func(dataplane.PodKey) []policy.Key) standing {
	s := standing{texts: map[policy.Key]map[topic]string{}}
	pods := map[policy.Key]map[topic]int{}
	for _, w := range warnings {
		namespace, name, _ := strings.Cut(w.Object, "/")
		switch w.Kind {
		case "NetworkPolicy":
			s.set(policy.Key{Namespace: namespace, Name: name}, topic{w.Reason, w.Message}, w.Message)
		case "Pod":
			for _, key := range selecting(dataplane.PodKey{Namespace: namespace, Name: name}) {
				t := topic{reason: w.Reason}
				if pods[key] == nil {
					pods[key] = map[topic]int{}
				}
				pods[key][t]++
				if n := pods[key][t]; n == 1 {
					s.set(key, t, fmt.Sprintf("%s pod %s: %s", inWhat(w.Reason), name, w.Message))
				}
			}
		case "Node":
			s.away = true
		}
	}
	for key, topics := range pods {
		for t, n := range topics {
			if n > 1 {
				s.set(key, t, fmt.Sprintf("in %d pods, one of them: %s", n, s.texts[key][t]))
			}
		}
	}
	return s
}

// inWhat says what a warning on a pod means for the policies that select it.
func inWhat(reason dataplane.Reason) string {
	if reason == dataplane.ReasonAddressContested {
		return "in doubt for"
	}
	return "not in force for"
}

func (s *standing) set(key policy.Key, t topic, text string) {
	if s.texts[key] == nil {
		s.texts[key] = map[topic]string{}
	}
	s.texts[key][t] = text
}

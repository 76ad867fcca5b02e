package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Service is the service behind HNS.
type Service interface {
	// PID is that of its process; 0: it does not run.
	PID() (uint32, error)
	// Restart stops it and starts it again, and returns when it runs.
	Restart(ctx context.Context) error
}

// Bounds of phase 4.
const (
	restartTakes = 3 * time.Minute
	backWithin   = 2 * time.Minute // after it runs, until it shows the network
	restartLooks = 250 * time.Millisecond
	lastWait     = time.Minute // for a service that nobody waits for any more
)

// errNotBack says that nobody knows whether the service runs.
var errNotBack = errors.New("the service did not come back in time")

// state is what HNS shows before and after a restart.
type state struct {
	networks, endpoints []string // GUIDs of all that the node has, in small letters
	pod                 found
	podThere            bool
	sets                []string
	rules               int
	pid                 uint32
	pidErr              error
}

// askRestart is phase 4: it restarts HNS and looks at what survived.
func (e *exam) askRestart() {
	if e.service == nil || !e.begin("restart: before it") {
		return
	}
	if why := e.prepareRestart(); why != "" {
		e.find("S18", Unknown, why)
		return
	}
	before := e.stateOf()
	if !e.begin("restart: the service") {
		return
	}
	answers, err := e.restartService()
	if err != nil {
		for _, id := range []string{"C6", "E7", "E8", "E9", "S18"} {
			e.find(id, Unknown, "HNS was not restarted: "+err.Error())
		}
		return
	}
	if !e.begin("restart: after it") {
		return
	}
	took, back := e.waitForNetwork()
	e.compare(before, e.stateOf(), took)
	e.whileDown(answers, back)
}

// prepareRestart puts sets and rules where a restart may lose them.
func (e *exam) prepareRestart() string {
	e.onlyPod()
	for _, s := range []step{add(leafOf(setA, twoAddresses)), add(listOf(setList, setA))} {
		if r := e.modify("a set to keep", network, ownID, s.request()); !r.ok() {
			return "no set can be made: " + r.said()
		}
	}
	plain := aclPolicy(otherID, inAllow+switched)
	if r := e.modify("rules to keep", endpoint, ownPod, add(rule(`,"LocalAddresses":"`+setList+`"`), plain).request()); !r.ok() {
		return "no rule can be made: " + r.said()
	}
	return ""
}

// stateOf reads what there is.
func (e *exam) stateOf() state {
	var s state
	s.pid, s.pidErr = e.service.PID()
	networks, _ := e.enumerate("all networks", network, "")
	endpoints, _ := e.enumerate("all endpoints", endpoint, "")
	s.networks, s.endpoints = small(networks), small(endpoints)
	s.pod, s.podThere = e.look(endpoint, ownPod)
	s.rules = len(s.pod.rules())
	shown, _ := e.look(network, ownID)
	s.sets = sorted(shown.sets())
	return s
}

// small are GUIDs in one spelling.
func small(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = strings.ToLower(id)
	}
	return out
}

// restartService restarts HNS, and asks it something all the while. Bounded by restartTakes.
func (e *exam) restartService() (answers []*Record, err error) {
	ctx, cancel := context.WithTimeout(e.ctx, restartTakes)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- e.service.Restart(ctx) }()
	for {
		answers = append(answers, e.read("while it restarts", network, ownID))
		select {
		case err := <-done:
			return answers, err
		default:
			e.pause(restartLooks)
		}
		if ctx.Err() != nil {
			return answers, e.atLast(done)
		}
	}
}

// atLast waits a little longer for a service that is told to stop waiting: what is taken away
// afterwards needs one that runs.
func (e *exam) atLast(done <-chan error) error {
	timer := time.NewTimer(lastWait)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errNotBack
	}
}

// whileDown says what the answers of a service that stops or starts mean. back says that the
// network, of which they are, is there again: one that is gone for good is another matter.
func (e *exam) whileDown(answers []*Record, back bool) {
	failed := 0
	for _, r := range answers {
		if r.ok() || missing(r) && !back {
			continue
		}
		if failed++; r.class() != hns.BrokeOff {
			e.find("C6", Refuted, "while HNS restarts: "+r.said(), r)
			return
		}
		if failed == 1 {
			e.find("C6", Held, "while HNS restarts: "+r.said(), r)
		}
	}
	if failed == 0 {
		e.find("C6", Unknown, fmt.Sprintf("none of %d calls failed meanwhile", len(answers)))
	}
}

// waitForNetwork waits until HNS shows the doctor's network, and returns how long that took
// and whether it does.
func (e *exam) waitForNetwork() (time.Duration, bool) {
	began := e.now()
	for {
		if _, ok := e.look(network, ownID); ok || e.stopped() || e.now().Sub(began) > backWithin {
			return e.now().Sub(began), ok
		}
		e.pause(restartLooks)
	}
}

// compare says what survived.
func (e *exam) compare(before, after state, back time.Duration) {
	if e.stopped() {
		return
	}
	lost := func(old, now []string) []string {
		return slices.DeleteFunc(slices.Clone(old), func(id string) bool { return slices.Contains(now, id) })
	}
	networks, endpoints := lost(before.networks, after.networks), lost(before.endpoints, after.endpoints)
	e.holds("E7", len(networks) == 0, fmt.Sprintf("%d of %d networks have not got their Id any more; the doctor's was there %v after the start",
		len(networks), len(before.networks), back))
	switch {
	case before.pidErr != nil || after.pidErr != nil || before.pid == 0 || after.pid == 0:
		e.find("E8", Unknown, fmt.Sprintf("the process is not known: %d %v, %d %v", before.pid, before.pidErr, after.pid, after.pidErr))
	default:
		e.holds("E8", before.pid != after.pid, fmt.Sprintf("it was %d and is %d", before.pid, after.pid))
	}
	attached := after.podThere && (after.pod.State == "2" || after.pod.State == "3")
	e.holds("E9", attached && len(endpoints) == 0, fmt.Sprintf("%d of %d endpoints are gone; that of the doctor is there: %v, in state %s",
		len(endpoints), len(before.endpoints), after.podThere, or(after.pod.State.String(), "none")), after.pod.record)
	e.find("S18", Held, fmt.Sprintf("%d of %d sets and %d of %d rules are there", len(after.sets), len(before.sets), after.rules, before.rules))
}

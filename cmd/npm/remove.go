package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
)

// removeRounds is how often removeOurs looks and takes away what it finds.
const removeRounds = 5

// errKept is why no set is removed.
var errKept = errors.New("endpoints are left whose rules may name them")

// leftover is what WinNPM and its predecessor have in HNS.
type leftover struct {
	endpoints []leftEndpoint  // that have rules of ours, or cannot be read, by GUID
	nested    []hns.SetPolicy // sets of sets, by name
	sets      []hns.SetPolicy // the other ones, by name
	setErr    error           // why HNS did not remove sets, nil for none
}

// leftEndpoint is an endpoint that has rules of ours, or may have.
type leftEndpoint struct {
	id    string // GUID
	addrs []netip.Addr
	rules int   // of ours; 0 when it cannot be read
	err   error // of its last read or write, nil for none

	version hns.Version // that its rules are taken away from
}

func (l leftover) empty() bool { return len(l.endpoints)+len(l.nested)+len(l.sets) == 0 }

// lookForOurs reads the sets and every endpoint, and writes nothing. An endpoint that cannot
// be read is listed with the reason. The error is that of the sets or of the enumeration.
func lookForOurs(ctx context.Context, client hns.Client) (leftover, error) {
	network, err := client.Network(ctx)
	if err != nil {
		return leftover{}, fmt.Errorf("reading the sets: %w", err)
	}
	var out leftover
	for _, s := range slices.SortedFunc(slices.Values(network.Sets), func(a, b hns.SetPolicy) int { return strings.Compare(a.Name, b.Name) }) {
		switch ours := strings.HasPrefix(strings.ToLower(s.ID), hns.SetIDPrefix); {
		case ours && s.Type == hns.NestedIPSet:
			out.nested = append(out.nested, s)
		case ours:
			out.sets = append(out.sets, s)
		}
	}
	ids, err := client.EndpointIDs(ctx)
	if err != nil {
		return leftover{}, fmt.Errorf("enumerating the endpoints: %w", err)
	}
	for _, id := range slices.Sorted(slices.Values(ids)) {
		e, err := client.GetEndpoint(ctx, id)
		ours, _ := e.Split()
		switch {
		case ctx.Err() != nil:
			return leftover{}, context.Cause(ctx)
		case errors.Is(err, hns.ErrElsewhere), hns.EndpointGone(err):
		case err != nil:
			out.endpoints = append(out.endpoints, leftEndpoint{id: id, err: err})
		case len(ours) > 0:
			out.endpoints = append(out.endpoints, leftEndpoint{id: id, addrs: e.Addrs, rules: len(ours), version: e.Basis()})
		}
	}
	return out, nil
}

// removeOurs takes everything of ours away and returns what the last look still finds. It
// may be ended at any call and begun anew.
//
// An endpoint loses all of our rules in one request, so what it lets pass is as before
// or as without us, and nothing between. One that fails does not stop the others. Sets go
// only when no endpoint is left that has our rules, or may have them. After a round in which
// something failed it pauses for 1, 2, 4 … s.
func removeOurs(ctx context.Context, client hns.Client) (leftover, error) {
	failed, setErr := map[string]error{}, error(nil)
	for round := 1; ; round++ {
		left, err := lookForOurs(ctx, client)
		switch {
		case ctx.Err() != nil:
			return leftover{}, context.Cause(ctx)
		case round > removeRounds || err == nil && left.empty():
			left.explain(failed, setErr)
			return left, err
		case err == nil:
			failed, setErr = left.takeAway(ctx, client)
			if len(failed) == 0 && setErr == nil {
				continue // a look tells whether it is done
			}
		}
		if err := sleep(ctx, time.Second<<(round-1)); err != nil {
			return leftover{}, err
		}
	}
}

// explain records why the last round left endpoints and sets.
func (l *leftover) explain(failed map[string]error, setErr error) {
	for i, e := range l.endpoints {
		if e.err == nil {
			l.endpoints[i].err = failed[e.id]
		}
	}
	if len(l.nested)+len(l.sets) > 0 {
		l.setErr = setErr
	}
}

// takeAway removes what was found. It returns why endpoints keep their rules, by GUID,
// and why sets stay.
func (l leftover) takeAway(ctx context.Context, client hns.Client) (failed map[string]error, setErr error) {
	failed = map[string]error{}
	writer := versioned.Writer{Ask: hns.Asking(ctx, client)}
	for _, e := range l.endpoints {
		err := e.err
		if err == nil {
			release := client.Hold(ctx, e.id)
			_, err = writer.Replace(e.id, e.version, nil)
			release()
		}
		if err != nil && !hns.EndpointGone(err) {
			failed[e.id] = err
		}
	}
	if len(failed) > 0 {
		return failed, errKept
	}
	return failed, errors.Join(removeSets(ctx, client, l.nested), removeSets(ctx, client, l.sets))
}

// removeSets removes sets of one type with one request. When HNS refuses that, each goes
// alone: the request is all or nothing.
func removeSets(ctx context.Context, client hns.Client, sets []hns.SetPolicy) error {
	if len(sets) == 0 {
		return nil
	}
	err := client.ModifySets(ctx, hns.Remove, sets)
	if err == nil || !hns.Answered(err) {
		return err
	}
	var first error
	for _, s := range sets {
		err := client.ModifySets(ctx, hns.Remove, []hns.SetPolicy{s})
		if err != nil && !errors.Is(err, hns.ErrNotFound) && first == nil {
			first = fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	return first
}

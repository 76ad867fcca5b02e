package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
)

// errKept says why no set was removed.
var errKept = errors.New("sets stay while endpoints are left whose rules may name them")

// leftover lists the objects of WinNPM and its predecessor in HNS.
type leftover struct {
	endpoints []hns.Endpoint  // endpoints with our rules, sorted by GUID
	rules     int             // number of our rules on these endpoints
	nested    []hns.SetPolicy // our nested sets, sorted by name
	sets      []hns.SetPolicy // our other sets, sorted by name
	unread    []error         // one for each endpoint that cannot be read, and may have our rules
}

func (l leftover) empty() bool {
	return len(l.endpoints)+len(l.nested)+len(l.sets)+len(l.unread) == 0
}

// lookForOurs reads the network and every endpoint, and returns our objects. It writes nothing.
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
		case errors.Is(err, hns.ErrElsewhere), hns.EndpointGone(err):
		case err != nil:
			out.unread = append(out.unread, fmt.Errorf("endpoint %s cannot be read: %w", id, err))
		case len(ours) > 0:
			out.endpoints = append(out.endpoints, e)
			out.rules += len(ours)
		}
	}
	return out, nil
}

// remove removes the objects. It may be interrupted at any call; another lookForOurs and remove
// then complete it.
//
// An endpoint loses all of our rules in one request, so it has either all of them or none. If one
// endpoint fails, the others are still written. Sets are removed only after no endpoint has our
// rules, or may have them.
func (l leftover) remove(ctx context.Context, client hns.Client) error {
	failed := l.unread
	writer := versioned.Writer{Ask: hns.Asking(ctx, client)}
	for _, e := range l.endpoints {
		release := client.Hold(ctx, e.ID)
		_, err := writer.Replace(e.ID, e.Basis(), nil)
		release()
		if err != nil && !hns.EndpointGone(err) {
			failed = append(failed, fmt.Errorf("endpoint %s: %w", e.ID, err))
		}
	}
	if len(failed) > 0 {
		return errors.Join(append(failed, errKept)...)
	}
	return errors.Join(removeSets(ctx, client, l.nested), removeSets(ctx, client, l.sets))
}

// removeSets removes sets of one type with one request. If HNS rejects it, removeSets sends a
// request for each set, because a request is all or nothing.
func removeSets(ctx context.Context, client hns.Client, sets []hns.SetPolicy) error {
	if len(sets) == 0 {
		return nil
	}
	err := client.ModifySets(ctx, hns.Remove, sets)
	if err == nil || !hns.Answered(err) {
		return err
	}
	var failed []error
	for _, s := range sets {
		err := client.ModifySets(ctx, hns.Remove, []hns.SetPolicy{s})
		if err != nil && !errors.Is(err, hns.ErrNotFound) {
			failed = append(failed, fmt.Errorf("set %s: %w", s.Name, err))
		}
	}
	return errors.Join(failed...)
}

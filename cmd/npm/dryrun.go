package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/state"
)

// errDryRun is the reason why a dry run is never ready: it does not put the node's policies in
// force.
var errDryRun = errors.New("dry run: nothing is written to HNS")

// dryRun logs what the agent would write.
type dryRun struct {
	dump   func() state.Dump
	logger klog.Logger
	told   []string // the last lines
}

// applied logs the pending writes if they changed: the numbers of sets and endpoints, and at level
// debug a line for every set and rule.
func (d *dryRun) applied() {
	lines := differences(d.dump())
	if slices.Equal(lines, d.told) {
		return
	}
	d.told = lines
	d.logger.Info("dry run: this would be written to HNS", "writes", lines[0])
	for _, line := range lines[1:] {
		d.logger.V(1).Info("dry run: " + line)
	}
}

// differences returns a line with the numbers of sets and endpoints to write, and then a line for
// each set that differs, and for each rule to add or remove.
func differences(dump state.Dump) []string {
	lines := []string{""}
	for _, s := range dump.Sets {
		if s.Dirty {
			lines = append(lines, fmt.Sprintf("set %s has to have %s", s.Name, strings.Join(s.Members, " ")))
		}
	}
	sets, endpoints := len(lines)-1, 0
	for _, ep := range dump.Endpoints {
		if ep.Pod == "" || slices.Equal(ep.Applied, ep.Wanted) {
			continue
		}
		endpoints++
		for _, a := range ep.Applied {
			if !slices.Contains(ep.Wanted, a) {
				lines = append(lines, fmt.Sprintf("endpoint %s of pod %s loses %s", ep.ID, ep.Pod, acl.RuleText(a)))
			}
		}
		for _, a := range ep.Wanted {
			if !slices.Contains(ep.Applied, a) {
				lines = append(lines, fmt.Sprintf("endpoint %s of pod %s gets %s", ep.ID, ep.Pod, acl.RuleText(a)))
			}
		}
	}
	lines[0] = fmt.Sprintf("sets %d, endpoints %d", sets, endpoints)
	return lines
}

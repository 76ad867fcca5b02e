package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/state"
)

// errDryRun is why an agent that only looks is never ready: the node's policies are not
// in force by its doing.
var errDryRun = errors.New("dry run: nothing is written to HNS")

// dryRun tells what an agent that writes nothing would write.
type dryRun struct {
	dump   func() state.Dump
	logger klog.Logger

	mu   sync.Mutex
	told []string // the last lines
	sum  string   // "" before the first
}

// applied logs what HNS lacks when it is something else than before: counts, and at level
// debug a line for every set and rule.
func (d *dryRun) applied() {
	lines, sum := differences(d.dump())
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Equal(lines, d.told) && sum == d.sum {
		return
	}
	d.told, d.sum = lines, sum
	d.logger.Info("dry run: this would be written to HNS", "writes", sum)
	for _, line := range lines {
		d.logger.V(1).Info("dry run: " + line)
	}
}

// differences returns a line for each set that HNS has not as it should be, and for each rule
// that would come or go, and counts of the sets and endpoints.
func differences(dump state.Dump) (lines []string, sum string) {
	for _, s := range dump.Sets {
		if s.Dirty {
			lines = append(lines, fmt.Sprintf("set %s has to have %s", s.Name, strings.Join(s.Members, " ")))
		}
	}
	sets, endpoints := len(lines), 0
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
	return lines, fmt.Sprintf("sets %d, endpoints %d", sets, endpoints)
}

// ready returns why the agent is not.
func (d *dryRun) ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sum == "" {
		return errDryRun
	}
	return errors.New(errDryRun.Error() + "; it would get: " + d.sum)
}

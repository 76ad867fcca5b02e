package main

import (
	"cmp"
	"errors"
	"strings"
	"sync"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/dataplane"
)

// errDryRun is why an agent that only looks is never ready: the node's policies are not
// in force by its doing.
var errDryRun = errors.New("dry run: nothing is written to HNS")

// dryRun tells what an agent that writes nothing would write.
type dryRun struct {
	plan   func() (dataplane.Plan, error)
	logger klog.Logger

	mu   sync.Mutex
	told string // the plan
	sum  string // "" before the first
}

// applied logs the plan when it is another than before: counts, and at level debug a line
// for every set and ACL.
func (d *dryRun) applied() {
	plan, err := d.plan()
	if err != nil {
		cli.Warn(d.logger, "dry run: what would be written is not known", "reason", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	text, sum := plan.String(), cmp.Or(plan.Summary(), "nothing")
	if text == d.told && sum == d.sum {
		return
	}
	d.told, d.sum = text, sum
	d.logger.Info("dry run: this would be written to HNS", "writes", sum)
	for line := range strings.Lines(text) {
		d.logger.V(1).Info("dry run: " + strings.TrimSuffix(line, "\n"))
	}
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

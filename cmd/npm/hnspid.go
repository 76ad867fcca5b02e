package main

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/cli"
)

// pidPoll is how often the real process behind HNS is looked at.
const pidPoll = 10 * time.Second

// watchHNS has HNS read at once when it was restarted, as a new process may have
// lost what was programmed. A process id that cannot be read is no reason to do
// anything: the reconciler looks from time to time anyway.
func watchHNS(ctx context.Context, this host, wake chan<- struct{}, logger klog.Logger) {
	ticker := time.NewTicker(this.pidPoll)
	defer ticker.Stop()
	var known uint32 // the last that ran
	stopped := false // since known was seen
	for first, warned := true, false; ; {
		switch now, err := this.hnsPID(); {
		case err != nil:
			if !warned {
				cli.Warn(logger, "the process id of HNS cannot be read, its restarts are noticed by the reconciler only", "err", err.Error())
			}
			warned = true
		case now == 0:
			stopped = !first
			first = false
		default:
			if !first && (now != known || stopped) {
				logger.Info("HNS was restarted, reading what it has", "pid", now, "before", known)
				select {
				case wake <- struct{}{}:
				default: // a look is already due
				}
			}
			known, stopped, first = now, false, false
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

//go:build linux

package agent

import (
	"fmt"
	"time"

	"github.com/winnpm/winnpm/test/hnsfault"
)

// Limits of the rows of this file and those beside it: HNS answers what no table
// of ours says, and npm.exe closes first, looks, learns and goes on.
const (
	atOnce   = 10 * time.Second // "within seconds", on a busy machine
	aMinute  = 75 * time.Second // a round of the rolling look, and what is done about it
	never    = "5m"             // the interval of the reconciler in real life, in which no test ends
	lastPort = 8400             // of what a row refuses: each of its codes has a port of its own
)

// denies is text about the first probe that HNS does not deny, "" when it denies
// them all.
func (h *host) denies(probes ...hnsfault.Probe) string { return h.answers(hnsfault.Denied, probes) }

// allows is denies for packets that have to pass.
func (h *host) allows(probes ...hnsfault.Probe) string { return h.answers(hnsfault.Allowed, probes) }

func (h *host) answers(want hnsfault.Outcome, probes []hnsfault.Probe) string {
	for i, got := range h.Sim().Ask(probes...) {
		if got != want {
			return fmt.Sprintf("%+v is %v, not %v", probes[i], got, want)
		}
	}
	return ""
}

// Pods of the shop, and one that nobody knows.
var (
	webPod   = pod{addr: webAddr}
	dbPod    = pod{addr: dbAddr}
	farPod   = pod{addr: farAddr}
	stranger = pod{addr: outside}
)

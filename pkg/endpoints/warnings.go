package endpoints

import (
	"errors"
	"fmt"
	"strings"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// warn appends the warnings about an endpoint.
func (d *Table) warn(out []state.Warning, ep *Tracked) []state.Warning {
	for key, q := range ep.rejected {
		out = append(out, d.ofQuarantine(ep, key, q.Code))
	}
	if dirs := ep.blocksIPv6(); len(dirs) > 0 {
		out = append(out, d.onEndpoint(ep, state.ReasonIPv6Blocked, fmt.Sprintf(
			"endpoint %s has IPv6 addresses, but HNS sets hold IPv4 addresses only: its IPv6 %s is blocked, also for peers that policies accept; use IPv4", ep.ID, strings.Join(dirs, " and "))))
	}
	if ep.lastErr != nil {
		w := d.onEndpoint(ep, state.ReasonHNSUnavailable, oneLine(ep.lastErr))
		if errors.Is(ep.lastErr, hns.ErrInvalid) {
			w.Reason = state.ReasonHNSRejected
		}
		out = append(out, w)
	}
	return out
}

// blocksIPv6 returns the directions in which the endpoint's policies block IPv6. It returns nil for
// an endpoint without IPv6 addresses.
func (ep *Tracked) blocksIPv6() (dirs []string) {
	if len(ep.ipv6) == 0 || ep.owner == "" {
		return nil
	}
	for _, dir := range policy.Directions {
		if len(ep.block(acl.DirectionOf[dir])) > 0 {
			dirs = append(dirs, dir.String())
		}
	}
	return dirs
}

// ofQuarantine returns the warning that HNS rejects a policy, or a shared rule, on an endpoint.
func (d *Table) ofQuarantine(ep *Tracked, key policy.Key, code uint32) state.Warning {
	switch {
	case key == policy.Key{}:
		return d.onEndpoint(ep, state.ReasonHNSRejected, fmt.Sprintf(
			"HNS rejects the rules on endpoint %s that isolate the pod%s: each blocks everything of its direction there, and is tried again", ep.ID, InBrackets(code)))
	case key.Namespace == "":
		return d.onEndpoint(ep, state.ReasonHNSRejected,
			fmt.Sprintf("HNS rejects rule %s on endpoint %s%s: it is left out there, and tried again", key.Name, ep.ID, InBrackets(code)))
	}
	object, kind := desired.ObjectOf(key)
	return state.Warning{Object: object, Kind: kind, Reason: state.ReasonHNSRejected, Message: fmt.Sprintf(
		"HNS rejects its rules on endpoint %s%s: there what it accepts is left out and each of its denies blocks everything of its direction, until it changes or HNS takes it; it is asked again",
		ep.ID, InBrackets(code))}
}

// onEndpoint returns a warning about an endpoint, or the pod that owns it.
func (d *Table) onEndpoint(ep *Tracked, reason state.Reason, message string) state.Warning {
	if pod := d.podOf(ep); pod != "" {
		return state.Warning{Object: pod, Kind: "Pod", Reason: reason, Message: message}
	}
	return state.Warning{Object: ep.ID, Kind: "Endpoint", Reason: reason, Message: message}
}

func oneLine(err error) string { return fmt.Sprintf("%.300s; it is retried", err.Error()) }

// InBrackets returns a code of HNS in brackets after a blank, as warnings show it: the number, and
// its name if it has one. It returns "" for code 0.
func InBrackets(code uint32) string {
	if code == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.TrimSpace(fmt.Sprintf("0x%08x %s", code, hns.LookupCode(code).Name)))
}

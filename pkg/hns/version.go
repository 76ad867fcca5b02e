package hns

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Version is a digest of what an endpoint means: its addresses, our rules in
// canonical form, and everybody else's policies, each in any order. HNS has no
// versions of its own (hcn's schema has no ETag), so two reads with one Version
// are taken for one state. The empty Version is that of nothing that was read.
type Version string

// Version returns the version of the endpoint as it was read.
func (e Endpoint) Version() Version {
	ours, foreign := e.Split()
	return VersionOf(e.Addrs, ours, foreign)
}

// VersionOf returns the version of an endpoint with these addresses and
// policies, ours and everybody else's. It costs their size.
func VersionOf(addrs []netip.Addr, ours []ACL, foreign []EndpointPolicy) Version {
	lines := make([]string, 0, len(addrs)+len(ours)+len(foreign))
	for _, a := range addrs {
		lines = append(lines, "addr\x00"+a.String())
	}
	for _, a := range ours {
		lines = append(lines, a.Canonical().digestText())
	}
	for _, p := range foreign {
		lines = append(lines, p.digestText())
	}
	slices.Sort(lines)
	h := sha256.New()
	for _, l := range lines {
		_, _ = fmt.Fprintf(h, "%d:%s\n", len(l), l) // a hash takes everything
	}
	return Version(hex.EncodeToString(h.Sum(nil)[:16]))
}

// digestText is the rule as versions see it: a field that is left out there
// would change unnoticed.
func (a ACL) digestText() string {
	return strings.Join([]string{
		"acl", a.ID, a.Protocols, string(a.Action), string(a.Direction), a.LocalAddresses, a.RemoteAddresses,
		a.LocalPorts, a.RemotePorts, string(a.RuleType), fmt.Sprint(a.Priority),
	}, "\x00")
}

// digestText is the policy as versions see it: the order of keys and the blanks
// of its JSON do not count, the digits of a number do. What is no JSON counts as
// it is.
func (p EndpointPolicy) digestText() string {
	settings := []byte(p.Settings)
	d := json.NewDecoder(bytes.NewReader(p.Settings))
	d.UseNumber()
	var value any
	if d.Decode(&value) == nil && !d.More() {
		if canonical, err := json.Marshal(value); err == nil {
			settings = canonical
		}
	}
	return strings.Join([]string{"policy", p.Type, string(settings)}, "\x00")
}

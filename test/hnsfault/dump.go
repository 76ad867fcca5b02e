package hnsfault

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Dump returns the whole state as text, one line per object. Policies are indented below their
// endpoint:
//
//	network azure
//	set ns-x IPSET 10.0.0.4,10.0.0.5
//	set nslabel-team:a NESTEDIPSET empty-emptyhashset,ns-x
//	endpoint ep-1 addrs=10.0.0.4 remote=false network=azure state=Created
//	  acl 222 allow in azure-acl-x.web proto=6 local=ns-x lports=80
//	  policy OutBoundNAT {"Exceptions":["10.0.0.0/8"]}
//
// Sets are shown by name, and everything is sorted. A set whose Id does not follow from its name has id=.
// For an attached endpoint of the network only the addresses are shown.
func (s *Sim) Dump() string {
	sets := s.Sets()
	names := map[string]string{} // by Id
	for _, p := range sets {
		names[p.ID] = p.Name
	}
	shown := func(values []string) string {
		out := make([]string, len(values))
		for i, v := range values {
			out[i] = cmp.Or(names[v], v)
		}
		slices.Sort(out)
		return strings.Join(out, ",")
	}
	lines := []string{"network " + s.network}
	for _, p := range sets {
		line := strings.TrimSpace(fmt.Sprintf("set %s %s %s", p.Name, p.Type, shown(p.Values)))
		if p.ID != DerivedID(p.Name) {
			line += " id=" + p.ID
		}
		lines = append(lines, line)
	}
	for _, e := range s.Endpoints() {
		line := "endpoint " + e.ID
		for i, a := range e.Addrs {
			line += []string{" addrs=", ","}[min(i, 1)] + a.String()
		}
		if e.Remote || e.Network != s.network || e.State != hnssim.AttachedSharing {
			line += fmt.Sprintf(" remote=%t network=%s state=%v", e.Remote, e.Network, e.State)
		}
		var policies []string
		for _, p := range e.Policies {
			policies = append(policies, dumpPolicy(p, shown))
		}
		slices.Sort(policies)
		lines = append(append(lines, line), policies...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// dumpPolicy returns the line of a policy. Our rules are shown by their fields, other policies by their
// text.
func dumpPolicy(p hns.EndpointPolicy, shown func([]string) string) string {
	a, err := p.ACL()
	if err != nil || !a.Ours() {
		return fmt.Sprintf("  policy %s %s", p.Type, p.Settings)
	}
	a.Protocols = strings.TrimPrefix(a.Protocols, hns.AnyProtocol)
	a.LocalAddresses = shown(strings.Split(a.LocalAddresses, ","))
	a.RemoteAddresses = shown(strings.Split(a.RemoteAddresses, ","))
	text := "  acl " + acl.RuleText(a)
	if a.RuleType == hns.Host {
		text += " host"
	}
	return text
}

// DerivedID returns the Id that WinNPM and its predecessor give to a set: the prefix and 20 digits of the
// SHA-256 of its name in base 36. So dumps and fixtures need no Ids.
func DerivedID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hns.SetIDPrefix + fmt.Sprintf("%020s", new(big.Int).SetBytes(sum[:]).Text(36))[:20]
}

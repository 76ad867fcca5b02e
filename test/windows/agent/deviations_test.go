//go:build linux

package agent

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// TestDoctorDeviations: each thing that an HNS does otherwise refutes its own assumptions in
// the zip that npm.exe writesand no other.
func TestDoctorDeviations(t *testing.T) {
	begin(t)
	refuse := func(pattern string, code uint32) func(*host) {
		is := regexp.MustCompile(pattern)
		return func(h *host) { h.Refuse(is.MatchString, code) }
	}
	fault := func(f hnsd.Fault) func(*host) { return func(h *host) { h.Inject(f) } }
	shows := func(s hnssim.Spelling) hnssim.Personality { return hnssim.Personality{Spelling: s} }
	for name, tc := range map[string]struct {
		plant       func(*host) // nil: the personality does it
		personality hnssim.Personality
		refutes     []string
	}{
		"no SCTP":                      {refuse(`"132"`, 0x80070032), hnssim.Personality{}, []string{"A10"}},
		"no range of ports":            {refuse(`Ports":"[^"]*-`, 0x803b000d), hnssim.Personality{}, []string{"A9"}},
		"no world":                     {refuse(`\.0/[01]["\]]`, 0x803b002f), hnssim.Personality{}, []string{"A7"}},
		"no nested sets":               {refuse(`NESTEDIPSET`, 0x80070032), hnssim.Personality{}, []string{"S7", "S8"}},
		"no foreign rule back":         {refuse(`"Update".*azure-acl.*"Direction":"Out","Priority":65500`, 0x803b000d), hnssim.Personality{}, []string{"W3"}},
		"no version":                   {fault(hnsd.Fault{Proc: "HNSCall", Times: -1, Code: 0x80004005}), hnssim.Personality{}, []string{"W12"}},
		"an update of what is missing": {refuse(`"Update".*0000000000x|0000000000x.*"Update"`, 0x803b0008), hnssim.Personality{}, []string{"S10"}},
		"ports in another order":       {nil, shows(hnssim.Spelling{PortOrder: true}), []string{"W6"}},
		"addresses with a length":      {nil, shows(hnssim.Spelling{HostMask: true}), []string{"W6", "W7"}},
		"Ids of rules in capitals":     {nil, shows(hnssim.Spelling{UpperRuleIDs: true}), []string{"W5"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := azure()
			o.Personality = tc.personality
			h := newHost(t, o)
			if tc.plant != nil {
				tc.plant(h)
			}
			_, r := examine(t, h)
			var refuted []string
			for _, a := range r.Answers {
				if a.Verdict == doctor.Refuted {
					refuted = append(refuted, a.ID)
				}
			}
			require.ElementsMatch(t, tc.refutes, refuted)
		})
	}
}

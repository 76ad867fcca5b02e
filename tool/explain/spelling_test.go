package explain_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// respelt is the rule as HNS might show it.
func respelt(a hns.ACL) hns.ACL {
	turned := func(field string, one func(string) string) string {
		if field == "" {
			return ""
		}
		parts := strings.Split(field, ",")
		for i := range parts {
			parts[i] = one(parts[i])
		}
		slices.Reverse(parts)
		return strings.Join(parts, " , ")
	}
	address := func(text string) string {
		if strings.Contains(text, "/") || len(a.SetIDs()) > 0 {
			return strings.ToUpper(text)
		}
		return text + "/32"
	}
	port := func(text string) string {
		if strings.Contains(text, "-") {
			return text
		}
		return text + "-" + text
	}
	names := map[string]string{"": "256", "6": "Tcp", "17": "udp", "132": "SCTP"}
	a.Protocols = names[a.Protocols]
	a.LocalAddresses, a.RemoteAddresses = turned(a.LocalAddresses, address), turned(a.RemoteAddresses, address)
	a.LocalPorts, a.RemotePorts = turned(a.LocalPorts, port), turned(a.RemotePorts, port)
	if a.RuleType == hns.Switch {
		a.RuleType = ""
	}
	return a
}

// TestSpellingMeansNothing: what a rule is called in a dump changes no word of an
// answer.
func TestSpellingMeansNothing(t *testing.T) {
	for _, question := range []string{
		"x/web->z/db:5432/TCP", "10.0.1.1->z/db:5432/TCP", "z/cache-0->z/db:5432/TCP", "172.20.0.1->z/db:5432/TCP",
		"x/web->z/cache-0:80/TCP", "node->z/db:5432/TCP", "z/db->node:443/TCP", "z/db->x/web:80/TCP",
	} {
		answer := func(spell func(hns.ACL) hns.ACL) string {
			d, places := snapshot(t)
			for i := range d.Endpoints {
				ep := &d.Endpoints[i]
				respell := func(list *[]hns.ACL) { // several may be one
					*list = slices.Clone(*list)
					for n := range *list {
						(*list)[n] = spell((*list)[n])
					}
				}
				respell(&ep.Applied)
				respell(&ep.Wanted)
				respell(&ep.ForeignRules)
				for n := range ep.Maybe {
					respell(&ep.Maybe[n])
				}
			}
			return written(t, d, question, places)
		}
		plain, other := answer(func(a hns.ACL) hns.ACL { return a }), answer(respelt)
		require.Empty(t, cmp.Diff(plain, other), question)
		require.NotContains(t, plain, "what a rule does is not known", question)
	}
}

func written(t *testing.T, d state.Dump, question string, places explain.Places) string {
	t.Helper()
	q, err := explain.Parse(question)
	require.NoError(t, err)
	a, err := explain.Explain(d, q, places)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, a.WriteText(&b))
	return b.String()
}

// Package torture plays scenarios and disturbs them at every call of HNS: an error, a lost
// reply, a killed process, somebody else's hand. After each write it compares the verdict
// of every packet with the oracle (I4), and in the end the node has to be as if nothing had
// happened.
package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/cnis"
	"github.com/winnpm/winnpm/test/effort"
)

// scenarios reads testdata.
func scenarios(t *testing.T) []*scenario {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	var out []*scenario
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		for _, f := range archive.Files {
			sc, err := parse(f.Name, string(f.Data))
			require.NoError(t, err)
			out = append(out, sc)
		}
	}
	require.Greater(t, len(out), 20)
	return out
}

// TestEveryCall disturbs every scenario at every call in every way that the budget
// affords.
func TestEveryCall(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios(t) {
		t.Run(testName(sc.name), func(t *testing.T) {
			t.Parallel()
			everyCall(t, sc)
		})
	}
}

// everyCall disturbs a scenario at every call.
func everyCall(t *testing.T, sc *scenario) {
	undisturbed := newReplay(t, sc, nil)
	want := undisturbed.run()
	all := undisturbed.disturbances(afford())
	for i := range all {
		r := newReplay(t, sc, &all[i])
		r.sameAs(want, r.run())
	}
	t.Logf("%d calls, %d replays", undisturbed.played, len(all))
}

// TestEveryCNI plays every scenario on what each CNI puts on endpoints: undisturbed, as what
// a disturbance does is the same everywhere.
func TestEveryCNI(t *testing.T) {
	t.Parallel()
	for i, sc := range scenarios(t) {
		t.Run(testName(sc.name), func(t *testing.T) {
			t.Parallel()
			for n, c := range cnis.All()[1:] {
				if (i+n)%effort.Of(4, 1) != 0 {
					continue
				}
				if !(hns.Endpoint{Policies: c.Endpoint}).Parts(nil).Defaults.In && sc.byOthers() {
					t.Logf("%s: left out, as a rule of others alone closes its endpoints, with us and without", c)
					continue
				}
				on := *sc
				on.cni = c
				newReplay(t, &on, nil).run()
			}
		})
	}
}

// byOthers reports whether somebody else puts rules on an endpoint.
func (sc *scenario) byOthers() bool {
	return slices.ContainsFunc(slices.Concat(sc.given, sc.steps), func(s step) bool { return s.do == hand })
}

func testName(scenario string) string { return strings.ReplaceAll(scenario, " ", "_") }

// budget is how much is played.
type budget struct {
	both      bool   // ways to go on after a disturbance; else they alternate
	nth       int    // one in so many of the kinds of disturbances, beginning with another one at each call
	shuffles  uint64 // of a scenario
	orders    int    // one in so many of the orders of a scenario, beginning with another one at each scenario
	histories string // at random, always the same ones; "": as the command line says
}

// afford returns the budget.
func afford() budget {
	if effort.Full() {
		return budget{both: true, nth: 1, shuffles: 300, orders: 1}
	}
	return budget{
		nth: effort.Of(61, 1), shuffles: uint64(effort.Of(1, 5)), orders: effort.Of(len(expanders), 1), histories: strconv.Itoa(effort.Of(1, 30)),
	}
}

// elsewhere has the rows of docs/scenarios.md that no scenario plays, with the test that has each.
var elsewhere = map[string]string{
	"B5": "a call that never returns ends nothing here, where one goroutine plays: TestScenario_B5_CallThatNeverReturns (test/windows/agent)",
	"C4": "the harness has one network: the contract suite asks about an endpoint of another network (test/hnstest)",
}

// TestEveryRow: every row about a single node has a scenario, unless another test has it.
func TestEveryRow(t *testing.T) {
	t.Parallel()
	played := map[string]bool{}
	for _, sc := range scenarios(t) {
		row, _, _ := strings.Cut(sc.name, " ")
		played[row] = true
	}
	text, err := os.ReadFile("../../docs/scenarios.md")
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| ([A-D]\d+) \|`).FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(rows), 30)
	for _, row := range rows {
		assert.Equal(t, elsewhere[row[1]] == "", played[row[1]], "row %s", row[1])
	}
}

// TestManyTierRules: a ClusterNetworkPolicy of 25 rules with 25 peers each comes to a pod
// that is isolated, its order turns round, and it goes: disturbed at every call as the
// scenarios of testdata are. The actions take turns, and the blocks of one rule overlap
// those of the next ones.
func TestManyTierRules(t *testing.T) {
	t.Parallel()
	policy := func(backwards bool) string {
		var rules []string
		for i := range 25 {
			var networks []string
			for j := range 24 {
				networks = append(networks, fmt.Sprintf("10.%d.%d.0/24", i%5, j))
			}
			action := [...]string{"Accept", "Deny", "Pass"}[i%3]
			rules = append(rules, fmt.Sprintf("{action: %s, to: [{networks: [%s]}, {namespaces: {matchLabels: {team: t%d}}}], protocols: [{tcp: {destinationPort: {number: %d}}}]}",
				action, strings.Join(networks, ", "), i%7, 80+i%4))
		}
		if backwards {
			for i := range rules[:12] {
				rules[i], rules[24-i] = rules[24-i], rules[i]
			}
		}
		return "cluster c {tier: Admin, priority: 5, subject: {namespaces: {}}, egress: [" + strings.Join(rules, ", ") + "]}"
	}
	sc, err := parse("T10 25 rules with 25 peers each", strings.Join([]string{
		"namespace x team=t1", "namespace y team=t2", "namespace z team=t3",
		"endpoint ep-1 10.0.0.1", "pod x/w 10.0.0.1", "pod y/p 10.1.1.1 remote", "pod z/q 10.2.2.1 remote",
		"policy x/p {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {team: t2}}}]}, {to: [{ipBlock: {cidr: 10.2.0.0/16}}]}]}",
		"ports 80 81 82 83 84", "start",
		policy(false), "apply", policy(true), "apply", "delete cluster c", "apply",
	}, "\n"))
	require.NoError(t, err)
	everyCall(t, sc)
}

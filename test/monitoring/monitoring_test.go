// Package monitoring has tests alone: of the alerts, the scraping and the dashboard in
// deploy/monitoring.
package monitoring

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const deploy = "../../deploy/monitoring/"

var promql = parser.NewParser(parser.Options{})

// groups are the alerts, as promtool check rules takes them.
func groups(t *testing.T) []rulefmt.Rule {
	t.Helper()
	var object struct {
		Spec json.RawMessage `json:"spec"`
	}
	read(t, "prometheusrule.yaml", &object)
	parsed, errs := rulefmt.Parse(object.Spec, false, model.UTF8Validation, promql, slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	require.Len(t, parsed.Groups, 1)
	return parsed.Groups[0].Rules
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(deploy + file)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

// TestAlertsAreTheDocumented: the table in docs/metrics.md and the alerts are one list, to the
// letter, and its last column is what an alert says to do.
func TestAlertsAreTheDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n## What to alert on\n")
	require.True(t, found)
	row := regexp.MustCompile("(?m)^\\| `(WinNPM\\w+)` \\| (\\w+) \\| `(.+)`(?: for (\\d+) minutes)? \\| (.+) \\|$")
	var want, got []string
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		pending := 0
		if m[4] != "" {
			_, err := fmt.Sscan(m[4], &pending)
			require.NoError(t, err)
		}
		want = append(want, strings.Join([]string{m[1], m[2], strings.ReplaceAll(m[3], `\|`, "|"), (time.Duration(pending) * time.Minute).String(), strings.ReplaceAll(m[5], "`", "")}, "\n"))
	}
	for _, r := range groups(t) {
		got = append(got, strings.Join([]string{r.Alert, r.Labels["severity"], r.Expr, time.Duration(r.For).String(), r.Annotations["description"]}, "\n"))
		require.Equal(t, "https://github.com/winnpm/winnpm/blob/main/docs/metrics.md#what-to-alert-on", r.Annotations["runbook_url"])
		require.Contains(t, r.Annotations["summary"], "$labels.instance", r.Alert)
	}
	require.NotEmpty(t, want)
	require.Equal(t, want, got)
}

// series are what an agent wrote, with their labels, by name; cmd/npm keeps the list.
func series(t *testing.T) map[string][]labels.Labels {
	t.Helper()
	text, err := os.ReadFile("testdata/series.txt")
	require.NoError(t, err)
	all := map[string][]labels.Labels{"up": {labels.FromStrings(model.MetricNameLabel, "up", "job", "winnpm", "page", "node")}}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			continue
		}
		ls, err := promql.ParseMetric(line)
		require.NoError(t, err, line)
		all[ls.Get(model.MetricNameLabel)] = append(all[ls.Get(model.MetricNameLabel)], ls)
	}
	require.Greater(t, len(all), 40)
	return all
}

// scraped are the labels that Prometheus adds, as the ServiceMonitor has it.
var scraped = []string{"instance", "job", "page"}

// requireWritten fails for an expression that asks for what no agent writes.
func requireWritten(t *testing.T, all map[string][]labels.Labels, expr string) {
	t.Helper()
	e, err := promql.ParseExpr(expr)
	require.NoError(t, err, expr)
	asked := 0
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			asked++
			require.True(t, slices.ContainsFunc(all[n.Name], func(ls labels.Labels) bool { return matches(n, ls) }), "no agent writes %s", n)
		case *parser.AggregateExpr:
			for _, by := range n.Grouping {
				known := slices.Contains(scraped, by)
				parser.Inspect(n.Expr, func(in parser.Node, _ []parser.Node) error {
					if s, ok := in.(*parser.VectorSelector); ok {
						known = known || slices.ContainsFunc(all[s.Name], func(ls labels.Labels) bool { return ls.Has(by) })
					}
					return nil
				})
				require.True(t, known, "%s: no series has the label %s", expr, by)
			}
		}
		return nil
	})
	require.Positive(t, asked, expr)
}

// matches reports whether a selector finds a series, whatever its target is called. Each value
// of an alternative must be there: a word that nobody writes finds nothing.
func matches(s *parser.VectorSelector, ls labels.Labels) bool {
	for _, m := range s.LabelMatchers {
		if m.Name == "instance" || m.Name == "job" && m.Value == "winnpm" {
			continue
		}
		if !m.Matches(ls.Get(m.Name)) {
			return false
		}
	}
	return true
}

// TestAlertsAskForWhatIsWritten, each word of an alternative too.
func TestAlertsAskForWhatIsWritten(t *testing.T) {
	all := series(t)
	for _, r := range groups(t) {
		requireWritten(t, all, r.Expr)
		for _, words := range regexp.MustCompile(`(\w+)=~"([^"]+)"`).FindAllStringSubmatch(r.Expr, -1) {
			for word := range strings.SplitSeq(words[2], "|") {
				requireWritten(t, all, strings.Replace(r.Expr, words[0], fmt.Sprintf("%s=%q", words[1], word), 1))
			}
		}
	}
}

// TestWhatIsNotWritten: the check finds what it is there for.
func TestWhatIsNotWritten(t *testing.T) {
	all := series(t)
	require.Empty(t, all["npm_nonsense"])
	for _, expr := range []string{`npm_warnings{reason="HNSRejected"}`, `sum by (reason) (npm_warnings)`} {
		requireWritten(t, all, expr)
	}
	e, err := promql.ParseExpr(`npm_warnings{reason="Nonsense"}`)
	require.NoError(t, err)
	s, ok := e.(*parser.VectorSelector)
	require.True(t, ok)
	require.False(t, slices.ContainsFunc(all[s.Name], func(ls labels.Labels) bool { return matches(s, ls) }))
}

// TestAlertsFire: over series that go wrong, and not over those of an agent that is well.
func TestAlertsFire(t *testing.T) {
	ill := map[string]string{
		"WinNPMPodWithoutPolicies":     `npm_oldest_pending_pod_update_seconds 400x120`,
		"WinNPMPodsStartLate":          `npm_cni_claims_total{result="late"} 0x110 1x10`,
		"WinNPMPoliciesTakeEffectLate": `npm_add_policy_exec_time{quantile="0.99"} 70000x120`,
		"WinNPMRefusedByHNS":           `npm_warnings{reason="HNSRejected"} 1x120`,
		"WinNPMPolicyInPart":           `npm_warnings{reason="IPv6Peer"} 1x120`,
		"WinNPMHNSUnavailable":         `npm_hns_errors_total{operation="ACL/Add",class="unavailable"} 0+1x120`,
		"WinNPMDisputed":               `npm_disputed_objects{kind="acl"} 1x120`,
		"WinNPMDrift":                  `npm_drift_found_total{kind="set"} 0+1x120`,
		"WinNPMDriftNotRepaired":       "npm_drift_found_total{kind=\"set\"} 0+1x120\n  npm_drift_repaired_total{kind=\"set\"} 0x120",
		"WinNPMStale":                  `npm_informer_staleness_seconds{kind="pods"} 700x120`,
		"WinNPMManySets":               `npm_programmed_sets{type="IPSET"} 600x120`,
		"WinNPMDown":                   `up{job="winnpm",page="node"} 0x120`,
	}
	numbers := regexp.MustCompile(`(?m) \S+x120$| 0x110 1x10$`)
	rules := groups(t)
	require.Len(t, ill, len(rules))
	for _, r := range rules {
		load := "load 1m\n  " + ill[r.Alert] + "\n\n"
		require.NotEmpty(t, ill[r.Alert], r.Alert)
		well := numbers.ReplaceAllString(load, " 0x120")
		if r.Alert == "WinNPMDown" {
			well = numbers.ReplaceAllString(load, " 1x120")
		}
		for name, test := range map[string]string{
			"ill":  load + "eval instant at 115m count(" + r.Expr + ") > 0\n  {} 1\n",
			"well": well + "eval instant at 115m " + r.Expr + "\n",
		} {
			t.Run(r.Alert+"/"+name, func(t *testing.T) {
				promqltest.RunTest(t, test, promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery))
			})
		}
	}
}

// dashboard is what is read of the one for Grafana.
type dashboard struct {
	Panels []struct {
		ID          int    `json:"id"`
		Title       string `json:"title"`
		Description string `json:"description"`
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct{ RefID, Expr, LegendFormat string }
	}
	Templating struct{ List []struct{ Name string } }
}

// TestDashboard: every panel asks for what is written, names its labels, and has its place.
func TestDashboard(t *testing.T) {
	var d dashboard
	read(t, "dashboard.json", &d)
	all := series(t)
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			expr := strings.ReplaceAll(target.Expr, "$node", ".*")
			requireWritten(t, all, expr)
			for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				require.True(t, slices.Contains(scraped, label[1]) || strings.Contains(expr, "by ("+label[1]) || strings.Contains(expr, ", "+label[1]+")"), "%s: %s", p.Title, target.LegendFormat)
			}
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Less(t, x, 24, p.Title)
				require.Empty(t, taken[[2]int{x, y}], "%s lies on %s", p.Title, taken[[2]int{x, y}])
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	require.Greater(t, len(d.Panels), 10)
}

// TestServiceMonitor: it finds the Service of deploy/base by label and port, asks both pages,
// and gives the targets the labels that alerts and dashboard go by.
func TestServiceMonitor(t *testing.T) {
	var monitor struct {
		Spec struct {
			Selector  struct{ MatchLabels map[string]string }
			Endpoints []struct {
				Port, Path  string
				Relabelings []struct{ TargetLabel, Replacement string }
			}
		}
	}
	read(t, "servicemonitor.yaml", &monitor)
	var service struct {
		Metadata struct{ Labels map[string]string }
		Spec     struct{ Ports []struct{ Name string } }
	}
	read(t, "../base/service.yaml", &service)
	require.Equal(t, service.Metadata.Labels, monitor.Spec.Selector.MatchLabels)
	var paths, pages []string
	for _, e := range monitor.Spec.Endpoints {
		require.Equal(t, service.Spec.Ports[0].Name, e.Port)
		paths = append(paths, e.Path)
		var set []string
		for _, r := range e.Relabelings {
			set = append(set, r.TargetLabel)
			if r.TargetLabel == "page" {
				pages = append(pages, r.Replacement)
			}
			if r.TargetLabel == "job" {
				require.Equal(t, "winnpm", r.Replacement)
			}
		}
		require.ElementsMatch(t, scraped, set)
	}
	require.Equal(t, []string{"/node-metrics", "/cluster-metrics"}, paths)
	require.Equal(t, []string{"node", "cluster"}, pages, "the two scrapes of a node are two targets")
}

package scale

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of docs/performance.md anew")

// The table is between these lines.
const (
	document   = "../../docs/performance.md"
	tableBegin = "<!-- table: written by go test ./test/scale -update -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

// column is one of the table.
type column struct {
	title, unit string
	divide      float64
}

// columns are those of the table, but for what nobody measured.
var columns = []column{
	{"HNS requests", "hns-requests/op", 1},
	{"DLL calls", "dll-calls/op", 1},
	{"kB sent", "sent-B/op", 1e3},
	{"kB read", "read-B/op", 1e3},
	{"s until in HNS", "fake-s/op", 1},
	{"CPU µs/event", "agent-ns/event", 1e3},
	{"allocations", "allocs/op", 1},
	{"MB live", "live-heap-MB", 1},
	{"MB peak", "peak-heap-MB", 1},
	{"µs p50", "p50-ns/event", 1e3},
	{"µs p99", "p99-ns/event", 1e3},
	{"longest apply, ms", "longest-apply-ns", 1e6},
}

// TestTable: the table of docs/performance.md is that of the results in
// docs/bench.
func TestTable(t *testing.T) {
	before, after := results(t, "../../docs/bench/before.txt"), results(t, "../../docs/bench/after.txt")
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(text), tableBegin)
	require.True(t, ok)
	_, tail, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok)
	want := head + tableBegin + table(before, after) + tableEnd + tail
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "run make update")
}

// result is the values of one benchmark by unit, one of each run.
type result map[string][]float64

// processors is what Go puts behind names.
var processors = regexp.MustCompile(`-\d+$`)

// latency is what ends the names of benchmarks where a call takes a while: 30 ms a
// request at first, and 10 ms a call of the DLLs, three of which a request mostly is.
var latency = regexp.MustCompile(`/latency=(30|10)ms$`)

// results reads the output of go test -bench; none when there is no such file.
func results(t *testing.T, path string) map[string]result {
	t.Helper()
	text, err := os.ReadFile(path)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	out := map[string]result{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(processors.ReplaceAllString(fields[0], ""), "Benchmark")
		name = latency.ReplaceAllString(name, "")
		if out[name] == nil {
			out[name] = result{}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			require.NoError(t, err, line)
			out[name][fields[i+1]] = append(out[name][fields[i+1]], value)
		}
	}
	return out
}

// table renders results before and after, medians of the runs.
func table(before, after map[string]result) string {
	var b strings.Builder
	b.WriteString("| benchmark |")
	columns := slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		measured := func(results map[string]result) bool {
			return slices.ContainsFunc(slices.Collect(maps.Values(results)), func(r result) bool { return len(r[c.unit]) > 0 })
		}
		return !measured(before) && !measured(after)
	})
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if strings.Contains(name, "latency=0s") || !isOurs(name) {
			continue // but for the time until it is in HNS that is the same
		}
		fmt.Fprintf(&b, "| %s |", strings.ReplaceAll(name, "/", " "))
		for _, c := range columns {
			was, is := cell(before[name][c.unit], c.divide), cell(after[name][c.unit], c.divide)
			switch {
			case was == is || is == "":
				fmt.Fprintf(&b, " %s |", was)
			case was == "":
				fmt.Fprintf(&b, " %s |", is)
			default:
				fmt.Fprintf(&b, " %s → %s |", was, is)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// isOurs tells the benchmarks of this package from those of others in a file.
func isOurs(name string) bool {
	return strings.Contains(name, "pods=")
}

// cell is the median in three digits.
func cell(values []float64, divide float64) string {
	if len(values) == 0 {
		return ""
	}
	median := slices.Sorted(slices.Values(values))[len(values)/2] / divide
	switch {
	case median >= 100 || median == 0:
		return fmt.Sprintf("%.0f", median)
	case median >= 10:
		return fmt.Sprintf("%.1f", median)
	}
	return strconv.FormatFloat(median, 'g', 3, 64)
}

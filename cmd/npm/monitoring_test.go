package main

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/tool/hnssim"
)

var update = flag.Bool("update", false, "write the names of the series into test/monitoring, and the configuration into deploy")

// TestSeriesOfAnAgent keeps the names and labels of all that an agent writes for Prometheus,
// without the numbers, for test/monitoring: alerts and dashboards ask for nothing else.
func TestSeriesOfAnAgent(t *testing.T) {
	fake := newFake()
	require.NoError(t, fake.CreateEndpoint(hnssim.SimEndpoint{ID: "e1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	const policies = `[{"metadata":{"namespace":"x","name":"six","uid":"u6"},"spec":{"podSelector":{},"ingress":[{"from":[{"podSelector":{}}]}]}}]`
	s := start(t, fake, "{}", "--kubeconfig", serveAPI(t, policies, make(chan string, 8)))
	s.becomes("/readyz", 200, "ok\n")
	_, node := s.get("/node-metrics")
	_, cluster := s.get("/cluster-metrics")
	s.end()

	file := filepath.Join("..", "..", "test", "monitoring", "testdata", "series.txt")
	got := series(node + cluster)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "make update")
}

// series is a page of metrics without what differs between runs: a line for each series, and
// for each type and help.
func series(page string) string {
	value := regexp.MustCompile(` [^ ]+$`)
	own := regexp.MustCompile(`(goversion|version|set_name|set_hash)="[^"]*"`)
	var lines []string
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			lines = append(lines, line)
		case line != "":
			lines = append(lines, own.ReplaceAllString(value.ReplaceAllString(line, ""), `$1="…"`))
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n") + "\n"
}

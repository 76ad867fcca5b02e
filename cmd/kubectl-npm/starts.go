package main

import (
	"bufio"
	"io"
	"math"
	"regexp"
	"strconv"
)

// startBucket matches a line of the histogram of how long pods were open when they started. The count of
// a bucket includes the smaller buckets.
var startBucket = regexp.MustCompile(`^npm_pod_start_open_seconds_bucket\{.*le="([^"]+)"\} ([0-9.e+]+)$`)

// startsWithin returns the number of seconds within which 99% of the started pods had their rules, and
// the number of starts. seconds is 0 if it exceeds the largest bucket of the histogram.
func startsWithin(metrics io.Reader) (seconds float64, starts int, err error) {
	counts := map[float64]float64{}
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		found := startBucket.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		le, leErr := strconv.ParseFloat(found[1], 64)
		n, nErr := strconv.ParseFloat(found[2], 64)
		if leErr == nil && nErr == nil {
			counts[le] += n // of pods that waited for their rules and of those that did not
		}
	}
	all := counts[math.Inf(1)]
	best := math.Inf(1)
	for le, n := range counts {
		if n >= 0.99*all && le < best {
			best = le
		}
	}
	if math.IsInf(best, 1) {
		best = 0
	}
	return best, int(all), lines.Err()
}

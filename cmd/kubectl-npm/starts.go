package main

import (
	"bufio"
	"io"
	"math"
	"regexp"
	"strconv"
)

// startBucket is a line of the histogram of how long pods that start were open. A bucket has
// those that are in smaller ones too.
var startBucket = regexp.MustCompile(`^npm_pod_start_open_seconds_bucket\{.*le="([^"]+)"\} ([0-9.e+]+)$`)

// startsWithin returns the time within which 99 of 100 starts were over, and how many there
// were; 0 when it is longer than the histogram has.
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

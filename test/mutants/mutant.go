package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is one patch file.
type mutant struct {
	name string // file name without .patch
	path string // absolute
	test test
}

// test names the tests that have to notice a mutant.
type test struct {
	pkg   string // relative to the root, like ./pkg/ipsets
	names string // for -run
}

// testLine is the header line `Test: ./pkg/ipsets TestPins`.
var testLine = regexp.MustCompile(`(?m)^Test:[ \t]+(\./\S+)[ \t]+(\S+)[ \t]*$`)

// readMutants reads the headers of patch files. The error names the file and
// what its header lacks.
func readMutants(files []string) ([]mutant, error) {
	var out []mutant
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		// The first file line starts the diff; all before it is the header.
		header, _, found := strings.Cut("\n"+string(content), "\n--- ")
		if !found {
			return nil, fmt.Errorf("%s: no unified diff in it", file)
		}
		lines := testLine.FindAllStringSubmatch(header, -1)
		if len(lines) != 1 {
			return nil, fmt.Errorf("%s: %d lines `Test: ./package Regexp` before the diff, want one", file, len(lines))
		}
		names := lines[0][2]
		if _, err := regexp.Compile(names); err != nil {
			return nil, fmt.Errorf("%s: Test: %w", file, err)
		}
		out = append(out, mutant{
			name: strings.TrimSuffix(filepath.Base(path), ".patch"),
			path: path,
			test: test{pkg: lines[0][1], names: names},
		})
	}
	return out, nil
}

// Command mutants breaks copies of the repository, each with one patch at a time, and
// requires that the test named in the patch notices. README.md has the format.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run plays the named patches, or every patch of the repository around the working directory.
func run(ctx context.Context, files []string) error {
	root, err := command(ctx, ".", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return err
	}
	root = strings.TrimSpace(root)
	if len(files) == 0 {
		if files, err = filepath.Glob(filepath.Join(root, "test", "mutants", "*.patch")); err != nil {
			return err
		}
	}
	mutants, err := readMutants(files)
	if err != nil {
		return err
	}
	if len(mutants) == 0 {
		return errors.New("no *.patch in test/mutants, nothing was proven")
	}
	r, err := newRunner(ctx, root, min(runtime.NumCPU(), len(mutants)), os.Stdout)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.tmp)
	return r.play(ctx, mutants)
}

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
		lines := testLine.FindAllStringSubmatch(header, -1)
		if !found || len(lines) != 1 {
			return nil, fmt.Errorf("%s: %d lines `Test: ./package Regexp` before a diff, want one", file, len(lines))
		}
		if _, err := regexp.Compile(lines[0][2]); err != nil {
			return nil, fmt.Errorf("%s: Test: %w", file, err)
		}
		out = append(out, mutant{strings.TrimSuffix(filepath.Base(path), ".patch"), path, test{lines[0][1], lines[0][2]}})
	}
	return out, nil
}

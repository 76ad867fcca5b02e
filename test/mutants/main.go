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
	"runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run plays every patch of the repository around the working directory, or
// those named as arguments.
func run(ctx context.Context) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	files := os.Args[1:]
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

// moduleRoot returns the closest directory upwards that has a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("no go.mod here or above, run it inside the repository")
		}
		dir = filepath.Dir(dir)
	}
}

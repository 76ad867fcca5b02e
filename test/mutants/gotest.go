package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/test/effort"
)

// verdict is what one run of go test came to.
type verdict struct {
	passed []string // top-level tests
	failed []string // top-level tests
	broken string   // not empty: the run says nothing about the code, and why
	output string
}

// timeout bounds one test binary. A hang is no kill: a test that only ever
// stops by it cannot say what is wrong.
const timeout = 2 * time.Minute

// goTest runs the named tests in the module at dir.
func goTest(ctx context.Context, dir string, t test, limit time.Duration) (verdict, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-vet=off",
		"-timeout", limit.String(), "-run", t.names, t.pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), effort.Variable+"="+string(effort.Quick))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		// A failing test exits with an error too; the events tell which it was.
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || ctx.Err() != nil {
			return verdict{}, errors.Join(ctx.Err(), err)
		}
	}
	v, err := readEvents(stdout.Bytes())
	v.output += stderr.String()
	return v, err
}

// readEvents folds the output of go test -json.
func readEvents(stream []byte) (verdict, error) {
	var v verdict
	var output strings.Builder
	timedOut, packageFailed := false, false
	for line := range bytes.Lines(stream) {
		var event struct{ Action, Test, Output, FailedBuild string }
		if err := json.Unmarshal(line, &event); err != nil {
			return v, fmt.Errorf("go test -json wrote %q: %w", line, err)
		}
		output.WriteString(event.Output)
		timedOut = timedOut || strings.HasPrefix(event.Output, "panic: test timed out")
		if event.FailedBuild != "" {
			v.broken = "does not compile"
		}
		packageFailed = packageFailed || event.Test == "" && event.Action == "fail"
		if event.Test == "" || strings.Contains(event.Test, "/") {
			continue
		}
		switch event.Action {
		case "pass":
			v.passed = append(v.passed, event.Test)
		case "fail":
			v.failed = append(v.failed, event.Test)
		}
	}
	slices.Sort(v.failed)
	v.output = output.String()
	switch {
	case v.broken != "":
	case timedOut:
		v.broken = "timed out"
	case packageFailed && len(v.failed) == 0:
		v.broken = "crashed outside of a test"
	case len(v.passed)+len(v.failed) == 0:
		v.broken = "no test ran"
	}
	return v, nil
}

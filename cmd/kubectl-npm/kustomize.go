package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/bounded"
	"github.com/winnpm/winnpm/pkg/printable"
)

// kustomized returns the objects of a kustomization, as the kubectl in the PATH builds them
// (ADR 33 says why the program does not do it itself). What that fetches it fetches, and it
// ends with ctx.
func kustomized(ctx context.Context, dir string) ([]byte, error) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		return nil, fmt.Errorf("-k %s: there is no kubectl in the PATH, which builds it; where there is one: kubectl kustomize %s | %s plan -f -", dir, dir, program)
	}
	cmd := exec.CommandContext(ctx, kubectl, "kustomize", "--", dir)
	cmd.WaitDelay = time.Second // a child of its own may keep the pipes open
	var stdout, stderr boundedBuffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); stdout.full || stderr.full {
		return nil, fmt.Errorf("-k %s: kubectl kustomize: %w", dir, bounded.ErrInputTooLarge)
	} else if err != nil {
		if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) || ctx.Err() != nil {
			return nil, fmt.Errorf("-k %s: %s kustomize: %w", dir, kubectl, err)
		}
		return nil, fmt.Errorf("-k %s: kubectl kustomize: %s", dir, lastLine(string(stderr.text), err))
	}
	return stdout.text, nil
}

// boundedBuffer keeps up to bounded.MaxInput bytes. A Write beyond that fails, which ends the
// process whose output it is.
type boundedBuffer struct {
	text []byte
	full bool
}

// Write implements io.Writer.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.full = b.full || len(b.text)+len(p) > bounded.MaxInput; b.full {
		return 0, bounded.ErrInputTooLarge
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// commandFailed is how newer kubectls put what "error: " said.
var commandFailed = regexp.MustCompile(`^E\d{4} .*\] "command failed" err=(".*")$`)

// lastLine returns the last line of what kubectl said when it failed.
func lastLine(text string, err error) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := strings.TrimPrefix(lines[len(lines)-1], "error: ")
	if found := commandFailed.FindStringSubmatch(line); found != nil {
		if said, err := strconv.Unquote(found[1]); err == nil {
			line = said
		}
	}
	if line = printable.Line(line); line == "" {
		return err.Error()
	}
	return line
}

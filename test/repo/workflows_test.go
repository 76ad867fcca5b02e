package repo

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// workflow is the part of a file in .github/workflows that these tests read; actionlint reads the rest.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Steps       []struct {
			Uses string
			Run  string
			With map[string]any
		}
	}
}

var (
	uses   = regexp.MustCompile(`(?m)^[ -]*uses: *(.*)$`)
	pinned = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
)

// TestWorkflows checks that each action is pinned to one commit, that a workflow as a whole may
// only read, that a checkout leaves no token behind, and that a job that may write runs
// nothing of the repository.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(".github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	first := map[string]string{} // by action: the first pin
	for _, name := range names {
		text := read(t, name)
		for _, match := range uses.FindAllStringSubmatch(text, -1) {
			require.Regexp(t, pinned, match[1], name)
			action, _, _ := strings.Cut(match[1], "@")
			if first[action] == "" {
				first[action] = match[1]
			}
			require.Equal(t, first[action], match[1], "%s: another commit of one action", name)
		}
		var w workflow
		require.NoError(t, yaml.Unmarshal([]byte(text), &w))
		require.NotNil(t, w.Permissions, "%s: without permissions it has all that the repository gives", name)
		for what, access := range w.Permissions {
			require.Contains(t, []string{"read", "none"}, access, "%s: every job has %s", name, what)
		}
		for id, job := range w.Jobs {
			writes := slices.Contains(slices.Collect(maps.Values(job.Permissions)), "write")
			for _, step := range job.Steps {
				checkout := strings.HasPrefix(step.Uses, "actions/checkout@")
				require.False(t, checkout && step.With["persist-credentials"] != false, "%s: the checkout of %s keeps its token", name, id)
				require.False(t, writes && (checkout || strings.Contains(step.Run, "make ")), "%s: %s may write, and runs the repository", name, id)
			}
		}
	}
}

// TestCIWorkflow checks that ci.yml runs each part of .ci/run, with the same draws of random tests.
func TestCIWorkflow(t *testing.T) {
	t.Parallel()
	run, workflow := read(t, ".ci/run"), read(t, ".github/workflows/ci.yml")
	seeds := regexp.MustCompile(`\b(\w+_SEED)=(\S+)`).FindAllStringSubmatch(run, -1)
	require.NotEmpty(t, seeds)
	for _, seed := range seeds {
		require.Regexp(t, `(?m)^  `+seed[1]+`: "?`+seed[2]+`"?$`, workflow)
	}
	var verbs []string
	for _, row := range regexp.MustCompile(`(?m)^ +- .*\bverbs: ([\w -]+),`).FindAllStringSubmatch(workflow, -1) {
		verbs = append(verbs, strings.Fields(row[1])...)
	}
	parts := regexp.MustCompile(`(?m)^part (\S+) \d+`).FindAllStringSubmatch(run, -1)
	require.NotEmpty(t, parts)
	for _, part := range parts {
		require.Contains(t, verbs, part[1], "ci.yml does not run make %s", part[1])
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(content)
}

package winnpm_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const (
	ciWorkflow      = ".github/workflows/ci.yml"
	windowsWorkflow = ".github/workflows/windows.yml"
	releaseWorkflow = ".github/workflows/release.yml"
	issueForms      = ".github/ISSUE_TEMPLATE/"
)

// workflow is what these tests read of a file in .github/workflows; actionlint reads the rest.
type workflow struct {
	Permissions map[string]string
	Env         map[string]string
	Jobs        map[string]job
}

type job struct {
	Permissions map[string]string
	Minutes     any `json:"timeout-minutes"` // a number, or an expression of the matrix
	Strategy    struct {
		Matrix struct {
			Include []map[string]any
		}
	}
	Steps []struct {
		Uses string
		Run  string
		With map[string]any
	}
}

// ci is what has to pass before a change lands, as .ci/run has it.
type ci struct {
	verbs   []string          // of the Makefile
	minutes map[string]int    // by the verbs that are a part
	env     map[string]string // what fixes the draws
}

var (
	makeVerb = regexp.MustCompile(`(?m)^([a-z0-9-]+):.* ## `)
	ciPart   = regexp.MustCompile(`(?m)^part (\S+) (\d+)`)
	ciSeed   = regexp.MustCompile(`\b(\w+_SEED)=(\S+)`)
	ofMatrix = regexp.MustCompile(`\$\{\{ matrix\.(\w+) \}\}`)
	runsMake = regexp.MustCompile(`^make( --keep-going)?(( [a-z0-9-]+)+)$`)
	uses     = regexp.MustCompile(`(?m)^[ -]*uses: *(.*)$`)
	pinned   = regexp.MustCompile(`^([\w./-]+@[0-9a-f]{40}) # (v\d+\.\d+\.\d+)$`)
	runsExe  = regexp.MustCompile(`(?m)\.\\\w+\.exe .*$`)
)

// TestCIWorkflow: ci.yml runs verbs of the Makefile alone, every part of .ci/run among
// them, with the time and the draws that the part has there.
func TestCIWorkflow(t *testing.T) {
	t.Parallel()
	want := readCI(read(t, "Makefile"), read(t, ".ci/run"))
	require.NotEmpty(t, want.verbs)
	require.NotEmpty(t, want.minutes)
	require.Len(t, want.env, 2)
	report(t, want.missing(parseWorkflow(t, read(t, ciWorkflow))))
}

// TestWorkflows: each action is one commit, which is the same everywhere, and no workflow
// as a whole may write.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(".github/workflows/*.yml")
	require.NoError(t, err)
	require.Subset(t, files, []string{ciWorkflow, windowsWorkflow, releaseWorkflow})
	texts := map[string]string{}
	for _, file := range files {
		texts[file] = read(t, file)
		report(t, tooMuchAllowed(file, parseWorkflow(t, texts[file])))
	}
	report(t, unpinned(texts))
}

// TestWindowsWorkflow: what it runs on a node is what docs/windows.md says to a person.
func TestWindowsWorkflow(t *testing.T) {
	t.Parallel()
	lines := runsExe.FindAllString(read(t, windowsWorkflow), -1)
	require.NotEmpty(t, lines)
	page := read(t, "docs/windows.md")
	for _, line := range lines {
		require.Contains(t, page, "\n"+line+"\n")
	}
}

// TestEvidence: the one line for a person with a node is one that the workflow runs, too, and comes
// before all others on its page.
func TestEvidence(t *testing.T) {
	t.Parallel()
	first := runsExe.FindString(read(t, evidencePage))
	require.NotEmpty(t, first)
	require.Contains(t, read(t, windowsWorkflow), "run: "+first+"\n")
	require.Contains(t, read(t, issueForms+"windows.yml"), strings.TrimPrefix(first, `.\`))
}

// TestReleaseWorkflow: a release is what make release builds, and no job that may write runs
// anything of the repository.
func TestReleaseWorkflow(t *testing.T) {
	t.Parallel()
	text := read(t, releaseWorkflow)
	require.Contains(t, text, "run: make release VERSION=\"$GITHUB_REF_NAME\"\n")
	require.Contains(t, text, "run: make image PROGRAMS=dist VERSION=\"$GITHUB_REF_NAME\" TO=\"dist/winnpm-image_$GITHUB_REF_NAME.tar\"\n")
	require.Contains(t, text, "--draft")
	report(t, writesAndBuilds(releaseWorkflow, parseWorkflow(t, text)))
}

// writesAndBuilds wants a job that may write to check nothing out and to make nothing.
func writesAndBuilds(file string, w workflow) []string {
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
		j := w.Jobs[name]
		if !slices.Contains(slices.Collect(maps.Values(j.Permissions)), "write") {
			continue
		}
		for _, step := range j.Steps {
			if strings.HasPrefix(step.Uses, "actions/checkout@") || strings.Contains(step.Run, "make ") {
				problems = append(problems, fmt.Sprintf("%s: %s may write, and runs the repository: %s%s", file, name, step.Uses, step.Run))
			}
		}
	}
	return problems
}

// TestIssueForms: GitHub shows them, and they ask for what tells most.
func TestIssueForms(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]string{"bug.yml": "npm support-bundle", "windows.yml": "npm.exe doctor"} {
		text := read(t, issueForms+name)
		require.Contains(t, text, asked)
		for _, problem := range malformedForm(text) {
			t.Errorf("%s%s: %s", issueForms, name, problem)
		}
	}
	require.Contains(t, read(t, issueForms+"config.yml"), "SECURITY.md")
}

func readCI(makefile, run string) ci {
	c := ci{minutes: map[string]int{}, env: map[string]string{}}
	for _, match := range makeVerb.FindAllStringSubmatch(makefile, -1) {
		c.verbs = append(c.verbs, match[1])
	}
	for _, match := range ciPart.FindAllStringSubmatch(run, -1) {
		c.minutes[match[1]], _ = strconv.Atoi(match[2])
	}
	for _, match := range ciSeed.FindAllStringSubmatch(run, -1) {
		c.env[match[1]] = match[2]
	}
	return c
}

// missing wants of a workflow what c does.
func (c ci) missing(w workflow) []string {
	var problems []string
	for name, value := range c.env {
		if w.Env[name] != value {
			problems = append(problems, fmt.Sprintf("%s: %s is %q, want %q", ciWorkflow, name, w.Env[name], value))
		}
	}
	var found []string
	for _, j := range w.Jobs {
		rows := j.Strategy.Matrix.Include
		if len(rows) == 0 {
			rows = []map[string]any{nil}
		}
		for _, row := range rows {
			verbs, wrong := c.row(j, row)
			found, problems = append(found, verbs...), append(problems, wrong...)
		}
	}
	for part := range c.minutes {
		if !slices.Contains(found, part) {
			problems = append(problems, ciWorkflow+": make "+part+" of .ci/run is missing")
		}
	}
	slices.Sort(problems)
	return problems
}

// row returns the verbs that a job runs with one row of its matrix.
func (c ci) row(j job, row map[string]any) (verbs, problems []string) {
	needed := 0
	for _, step := range j.Steps {
		if step.Run == "" {
			continue
		}
		line := strings.TrimSpace(expand(step.Run, row))
		match := runsMake.FindStringSubmatch(line)
		if match == nil {
			problems = append(problems, fmt.Sprintf("%s: %q is no verb of the Makefile", ciWorkflow, line))
			continue
		}
		for verb := range strings.FieldsSeq(match[2]) {
			if !slices.Contains(c.verbs, verb) {
				problems = append(problems, fmt.Sprintf("%s: the Makefile has no verb %s", ciWorkflow, verb))
			}
			verbs = append(verbs, verb)
			needed += c.minutes[verb]
		}
	}
	if minutes, _ := strconv.Atoi(expand(fmt.Sprint(j.Minutes), row)); minutes < needed {
		problems = append(problems, fmt.Sprintf("%s: %d minutes for make %s, .ci/run gives it %d", ciWorkflow, minutes, strings.Join(verbs, " "), needed))
	}
	return verbs, problems
}

// expand puts the values of a row of the matrix into a text.
func expand(text string, row map[string]any) string {
	return ofMatrix.ReplaceAllStringFunc(text, func(found string) string {
		if value, ok := row[ofMatrix.FindStringSubmatch(found)[1]]; ok {
			return fmt.Sprint(value)
		}
		return ""
	})
}

// unpinned wants each action by its commit with the version beside it, and no second
// commit of one version nor a second version.
func unpinned(texts map[string]string) []string {
	var problems []string
	first := map[string]string{} // by action
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		for _, match := range uses.FindAllStringSubmatch(texts[file], -1) {
			if strings.HasPrefix(match[1], "./") {
				continue
			}
			if !pinned.MatchString(match[1]) {
				problems = append(problems, fmt.Sprintf("%s: %s: write it as name@COMMIT # v1.2.3", file, match[1]))
				continue
			}
			name, _, _ := strings.Cut(match[1], "@")
			if before, ok := first[name]; ok && before != match[1] {
				problems = append(problems, fmt.Sprintf("%s: %s, elsewhere %s", file, match[1], before))
			}
			first[name] = match[1]
		}
	}
	return problems
}

// tooMuchAllowed wants a workflow to say what it may do, which is to read, and a checkout
// to leave no token behind. A job that has to write says so itself.
func tooMuchAllowed(file string, w workflow) []string {
	var problems []string
	if w.Permissions == nil {
		problems = append(problems, file+": no permissions, so it has all that the repository gives")
	}
	for what, access := range w.Permissions {
		if access != "read" && access != "none" {
			problems = append(problems, fmt.Sprintf("%s: every job may %s %s", file, access, what))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
		for _, step := range w.Jobs[name].Steps {
			if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
				problems = append(problems, fmt.Sprintf("%s: the checkout of %s keeps its token in .git", file, name))
			}
		}
	}
	return problems
}

// malformedForm wants what GitHub wants of an issue form; it shows none that lacks it.
func malformedForm(text string) []string {
	var form struct {
		Name, Description string
		Body              []struct {
			Type, ID   string
			Attributes map[string]any
		}
	}
	if err := yaml.Unmarshal([]byte(text), &form); err != nil {
		return []string{err.Error()}
	}
	var problems, ids []string
	if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
		problems = append(problems, "no name, description or body")
	}
	needs := map[string]string{"markdown": "value", "input": "label", "textarea": "label", "dropdown": "options", "checkboxes": "options"}
	for i, part := range form.Body {
		switch attribute, known := needs[part.Type]; {
		case !known:
			problems = append(problems, fmt.Sprintf("body %d: there is no type %q", i, part.Type))
		case part.Attributes[attribute] == nil, part.Type != "markdown" && part.Attributes["label"] == nil:
			problems = append(problems, fmt.Sprintf("body %d: a %s without its %s or label", i, part.Type, attribute))
		}
		if part.ID != "" && slices.Contains(ids, part.ID) {
			problems = append(problems, fmt.Sprintf("body %d: a second id %s", i, part.ID))
		}
		ids = append(ids, part.ID)
	}
	return problems
}

// Every rule has to refuse something, or it guards nothing.
func TestWorkflowRules(t *testing.T) {
	t.Parallel()
	c := readCI("all: x ## all\nfast: ## fast\nslow:\n\tx\n", "export A_SEED=1 B_SEED=22\npart all 3 # why\npart fast 4\n")
	good := "env: {A_SEED: '1', B_SEED: '22'}\njobs:\n  a:\n    timeout-minutes: ${{ matrix.m }}\n" +
		"    strategy: {matrix: {include: [{v: fast, m: 4}, {v: all fast, m: 7}]}}\n    steps: [{uses: x}, {run: 'make ${{ matrix.v }}'}]\n"
	for name, tt := range map[string]struct {
		from, to string
		want     []string
	}{
		"good":    {"", "", nil},
		"seed":    {"'22'", "'2'", []string{ciWorkflow + `: B_SEED is "2", want "22"`}},
		"missing": {"all fast", "fast", []string{ciWorkflow + ": make all of .ci/run is missing"}},
		"verb":    {"v: fast", "v: slow", []string{ciWorkflow + ": the Makefile has no verb slow"}},
		"command": {"'make $", "'sudo make $", []string{
			ciWorkflow + `: "sudo make all fast" is no verb of the Makefile`, ciWorkflow + `: "sudo make fast" is no verb of the Makefile`,
			ciWorkflow + ": make all of .ci/run is missing", ciWorkflow + ": make fast of .ci/run is missing",
		}},
		"time": {"m: 7", "m: 6", []string{ciWorkflow + ": 6 minutes for make all fast, .ci/run gives it 7"}},
	} {
		require.Equal(t, tt.want, c.missing(parseWorkflow(t, strings.Replace(good, tt.from, tt.to, 1))), name)
	}

	commit, other := strings.Repeat("a1", 20), strings.Repeat("b2", 20)
	require.Equal(t, []string{
		"a: b@v1: write it as name@COMMIT # v1.2.3",
		"a: b@" + commit + ": write it as name@COMMIT # v1.2.3",
		"b: a/b@" + other + " # v1.2.3, elsewhere a/b@" + commit + " # v1.2.3",
	}, unpinned(map[string]string{
		"a": "- uses: a/b@" + commit + " # v1.2.3\n  uses: b@v1\n  - uses: b@" + commit + "\n",
		"b": "- uses: ./x\n- uses: a/b@" + other + " # v1.2.3\n",
	}))

	require.Equal(t, []string{
		"f: no permissions, so it has all that the repository gives", "f: the checkout of j keeps its token in .git",
	}, tooMuchAllowed("f", parseWorkflow(t, "jobs: {j: {steps: [{uses: actions/checkout@x}]}}")))
	require.Equal(t, []string{"f: every job may write contents"}, tooMuchAllowed("f", parseWorkflow(t,
		"permissions: {contents: write, actions: none}\njobs: {j: {steps: [{uses: actions/checkout@x, with: {persist-credentials: false}}]}}")))

	require.Equal(t, []string{"f: j may write, and runs the repository: make x"}, writesAndBuilds("f", parseWorkflow(t,
		"jobs: {i: {steps: [{run: make x}]}, j: {permissions: {contents: write}, steps: [{run: make x}]}}")))

	require.Equal(t, []string{
		"no name, description or body", `body 0: there is no type "text"`, "body 1: a input without its label or label", "body 2: a second id a",
	}, malformedForm("name: x\nbody: [{type: text, id: a}, {type: input}, {type: markdown, id: a, attributes: {value: x}}]"))
}

func parseWorkflow(t *testing.T, text string) workflow {
	t.Helper()
	var w workflow
	require.NoError(t, yaml.Unmarshal([]byte(text), &w))
	return w
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(content)
}

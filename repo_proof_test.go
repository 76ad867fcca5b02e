package winnpm_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	guaranteesPage = "docs/guarantees.md"
	evidencePage   = "docs/evidence.md"
	windowsPage    = "docs/windows.md"
)

var (
	proofByZip     = regexp.MustCompile(`^proven on Windows by zip (\d+)$`)
	proofAssumed   = regexp.MustCompile(`^assumed: (\S.*)$`)
	assumptionID   = regexp.MustCompile(`\b[A-Z]\d+\b`)
	assumptionLine = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \|`)
	zipLine        = regexp.MustCompile(`(?m)^\| (\d+) \|`)
)

// TestProofs: each promise says whether it is proven here, proven on Windows by a zip that we have,
// or also takes what a node has to be asked for.
func TestProofs(t *testing.T) {
	t.Parallel()
	_, zips, _ := strings.Cut(read(t, evidencePage), "\n## Zips that we have\n")
	promises, problems := unproved(read(t, guaranteesPage), firsts(assumptionLine, read(t, windowsPage)), firsts(zipLine, zips))
	require.Greater(t, promises, 150)
	report(t, problems)
}

// firsts returns what the parentheses of a pattern hold in each match.
func firsts(pattern *regexp.Regexp, text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		found[match[1]] = true
	}
	return found
}

// unproved counts the rows of promises, and wants one of the three proofs in the last column of each.
func unproved(text string, assumptions, zips map[string]bool) (promises int, problems []string) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
			continue
		case strings.HasPrefix(line, "| promise |"):
			inside = true
			continue
		case !inside || strings.HasPrefix(line, "|---"):
			continue
		}
		promises++
		cells := strings.Split(strings.Trim(line, "|"), "|") // no proof has a bar
		proof := strings.TrimSpace(cells[len(cells)-1])
		if wrong := wrongProof(proof, assumptions, zips); wrong != "" {
			problems = append(problems, fmt.Sprintf("%s: %.60s: %s", guaranteesPage, strings.TrimSpace(cells[0]), wrong))
		}
	}
	return promises, problems
}

// wrongProof says what is wrong with a proof, "" when nothing is.
func wrongProof(proof string, assumptions, zips map[string]bool) string {
	if proof == "proven here" {
		return ""
	}
	if zip := proofByZip.FindStringSubmatch(proof); zip != nil {
		if !zips[zip[1]] {
			return "there is no zip " + zip[1] + " in " + evidencePage
		}
		return ""
	}
	takes := proofAssumed.FindStringSubmatch(proof)
	if takes == nil {
		return fmt.Sprintf("%q is none of: proven here, proven on Windows by zip N, assumed: what", proof)
	}
	for _, id := range assumptionID.FindAllString(takes[1], -1) {
		if !assumptions[id] {
			return "there is no assumption " + id + " in " + windowsPage
		}
	}
	return ""
}

// Every rule has to refuse something, or it guards nothing.
func TestProofRules(t *testing.T) {
	t.Parallel()
	table := "| promise | test | mutant | proof |\n|---|---|---|---|\n| a | `T` | | %s |\n\n| other | table |\n|---|---|\n| x | y |\n"
	for proof, want := range map[string]string{
		"proven here":                      "",
		"assumed: W1 and that":             "",
		"proven on Windows by zip 1":       "",
		"proven on Windows by zip 2":       "there is no zip 2 in docs/evidence.md",
		"assumed: W2":                      "there is no assumption W2 in docs/windows.md",
		"assumed":                          `"assumed" is none of: proven here, proven on Windows by zip N, assumed: what`,
		"proven on Windows":                `"proven on Windows" is none of: proven here, proven on Windows by zip N, assumed: what`,
		"proven on Windows by zip 1, 2022": `"proven on Windows by zip 1, 2022" is none of: proven here, proven on Windows by zip N, assumed: what`,
	} {
		promises, problems := unproved(fmt.Sprintf(table, proof), firsts(assumptionLine, "| W1 | x |\n"), firsts(zipLine, "| 1 | x |\n"))
		require.Equal(t, 1, promises)
		if want == "" {
			require.Empty(t, problems, proof)
			continue
		}
		require.Equal(t, []string{"docs/guarantees.md: a: " + want}, problems)
	}
	_, problems := unproved("| promise | test | mutant |\n|---|---|---|\n| a | `T` | |\n", nil, nil)
	require.Len(t, problems, 1, "a row without the column")
}

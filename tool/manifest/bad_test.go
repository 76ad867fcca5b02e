package manifest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/manifest"
)

// load reads text as standard input.
func load(text string) (manifest.Objects, []state.Warning, error) {
	return manifest.Load([]string{"-"}, manifest.Options{Stdin: strings.NewReader(text)})
}

const podText = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x}\n"

// np returns the text of a policy with a spec in flow style.
func np(spec string) string {
	return "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: x}\nspec: " + spec + "\n"
}

func pod(spec string) string {
	return podText + "spec: " + spec + "\n"
}

func podStatus(status string) string { return pod("{}") + "status: " + status + "\n" }

func deployment(spec string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: x}\nspec: " + spec + "\n"
}

// badInput is a text, and the error without the name of the file.
type badInput struct{ name, text, want string }

// badInputs returns those of testdata/bad.txtar, and one that is no text.
func badInputs(t testing.TB) []badInput {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/bad.txtar")
	require.NoError(t, err)
	all := []badInput{{"not utf-8", "kind: \xff\n", "the text is not UTF-8; save it as UTF-8"}}
	for _, f := range archive.Files {
		text, want, ok := strings.Cut("\n"+strings.TrimSuffix(string(f.Data), "\n"), "\n! ")
		require.True(t, ok, f.Name)
		text = text[1:] + "\n"
		for kind, object := range map[string]func(string) string{"NetworkPolicy ": np, "Deployment ": deployment, "Pod ": pod, "PodStatus ": podStatus} {
			if short, ok := strings.CutPrefix(text, kind); ok {
				text = object(strings.TrimSuffix(short, "\n"))
			}
		}
		all = append(all, badInput{f.Name, text, want})
	}
	return all
}

func TestBadInput(t *testing.T) {
	for _, c := range badInputs(t) {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := load(c.text)
			var e *manifest.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "stdin", e.File)
			e.Line = 0 // TestLinesOfErrors has them
			require.EqualError(t, e, "stdin: "+c.want)
		})
	}
}

// The error names its place also in fields of its own.
func TestErrorFields(t *testing.T) {
	_, _, err := load(pod("{}") + "---\n" + np("{podSelector: {}, ingress: [{from: [{}]}]}"))
	var e *manifest.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, manifest.Error{
		File: "stdin", Line: 9, Document: 2, Object: "NetworkPolicy x/p", Field: "spec.ingress[0].from[0]",
		Reason: "the peer is empty; give a podSelector, a namespaceSelector or an ipBlock",
	}, *e)
}

// Of several bad labels the same one is named each time.
func TestErrorIsStable(t *testing.T) {
	const text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a: '-7', b: '-2', c: '-5', d: '-4', e: '-9'}}\n"
	for range 100 {
		_, _, err := load(text)
		require.ErrorContains(t, err, `Invalid value: "-2"`)
	}
}

// Everything that is refused is told at once, each with its line: of the field, or of what it
// should be in.
func TestLinesOfErrors(t *testing.T) {
	const text = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: c
    ports:
    - containerPort: 80000
---
kind: [
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: good}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: Bad
- apiVersion: v1
  kind: Pod
  metadata: {name: p2, labels: {a.b/c: "-"}}
`
	_, _, err := load(text)
	var all manifest.Errors
	require.ErrorAs(t, err, &all)
	var got []string
	for l := range strings.Lines(err.Error()) {
		place, what, _ := strings.Cut(l, ": ")
		got = append(got, place+" "+what[:min(len(what), 40)])
	}
	require.Equal(t, []string{
		"stdin:8 document 1: Pod p: spec.containers[0].po",
		"stdin document 2: broken YAML, line 10: did no",
		"stdin:19 document 3 items[1]: Pod Bad: metadata.n",
		"stdin:22 document 3 items[2]: Pod p2: metadata.la",
	}, got)

	_, _, err = load(strings.Repeat("kind: 7\n---\n", 100))
	require.Equal(t, 21, strings.Count(err.Error(), "\n")+1)
	require.True(t, strings.HasSuffix(err.Error(), "\nand 80 more"), err.Error())
	var first *manifest.Error
	require.ErrorAs(t, err, &first)
	require.Equal(t, 1, first.Line)
}

package manifest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/simulate/manifest"
)

// load reads text as standard input.
func load(text string) (manifest.Objects, []manifest.Warning, error) {
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

func TestBadInput(t *testing.T) {
	for _, c := range slices.Concat(badObjects, badPolicies) {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := load(c.text)
			require.EqualError(t, err, "stdin: "+c.want)
			var e *manifest.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "stdin", e.File)
		})
	}
}

// The error names its place also in fields of its own.
func TestErrorFields(t *testing.T) {
	_, _, err := load(pod("{}") + "---\n" + np("{podSelector: {}, ingress: [{from: [{}]}]}"))
	var e *manifest.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, manifest.Error{
		File: "stdin", Document: 2, Object: "NetworkPolicy x/p", Field: "spec.ingress[0].from[0]",
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

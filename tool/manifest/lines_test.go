package manifest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/tool/manifest"
)

func TestPlaces(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want map[string]string
	}{
		"documents": {`# a comment
---
# another
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: a}
spec:
  podSelector: {}
  ingress:
  # the first
  - from: [{podSelector: {}}]

  - ports: [{port: 80}]
--- {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: b, namespace: x},
  spec: {podSelector: {}, egress: [{},
    {}]}}
`, map[string]string{
			"default/a": "stdin:4", "default/a spec.ingress[0]": "stdin:11", "default/a spec.ingress[1]": "stdin:13",
			"x/b": "stdin:14", "x/b spec.egress[0]": "stdin:15", "x/b spec.egress[1]": "stdin:16",
		}},
		"Windows line ends": {"apiVersion: networking.k8s.io/v1\r\nkind: NetworkPolicy\r\nmetadata: {name: a}\r\nspec:\r\n  podSelector: {}\r\n  ingress:\r\n  - {}\r\n",
			map[string]string{"default/a": "stdin:1", "default/a spec.ingress[0]": "stdin:7"}},
		"a list": {`apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: x}}
- apiVersion: v1
  kind: List
  items:
  - apiVersion: networking.k8s.io/v1
    kind: NetworkPolicy
    metadata: {name: a}
    spec:
      podSelector: {}
      ingress:
      - {}
`, map[string]string{"default/a": "stdin:8", "default/a spec.ingress[0]": "stdin:14"}},
		"an alias": {`apiVersion: v1
kind: List
metadata: &rules {labels: {}}
items:
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: a}
  spec: &spec
    podSelector: {}
    ingress:
    - {}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: b}
  spec: *spec
`, map[string]string{
			"default/a": "stdin:5", "default/a spec.ingress[0]": "stdin:11",
			"default/b": "stdin:12", "default/b spec.ingress[0]": "stdin:11",
		}},
		"JSON": {`{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
  "metadata": {"name": "a"},
  "spec": {"podSelector": {}, "ingress": [
    {}
  ]}}
`, map[string]string{"default/a": "stdin:1", "default/a spec.ingress[0]": "stdin:4"}},
		"JSON values in a row": {`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"}, "spec": {"podSelector": {}}}
`, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			o, _, err := manifest.Load([]string{"-"}, manifest.Options{Stdin: strings.NewReader(tc.text)})
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(tc.want, o.Places))
		})
	}
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// crowd writes manifests of so many pods, ten of each workload and a hundred in each
// namespace, and of a tenth as many policies; every pod may be on one node.
func crowd(tb testing.TB, pods int) string {
	tb.Helper()
	var b strings.Builder
	for w := range pods / 10 {
		namespace, app := fmt.Sprintf("ns%d", w/10), fmt.Sprintf("app%d", w%10)
		if w%10 == 0 {
			fmt.Fprintf(&b, "{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {team: t%d}}}\n---\n", namespace, w/10%10)
		}
		fmt.Fprintf(&b, "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: %s, name: %s}, spec: {replicas: 10, selector: {matchLabels: {app: %[2]s}}, template: {metadata: {labels: {app: %[2]s}}, spec: {containers: [{name: c, image: i, ports: [{name: http, containerPort: 8080}]}]}}}}\n---\n", namespace, app)
		fmt.Fprintf(&b, "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: %s, name: p%d}, spec: {podSelector: {matchLabels: {app: %s}}, ingress: [{from: [{podSelector: {matchLabels: {app: app%d}}}, {namespaceSelector: {matchLabels: {team: t%d}}}], ports: [{port: 8080}]}]}}\n---\n", namespace, w, app, (w+1)%10, (w/10+1)%10)
	}
	file := filepath.Join(tb.TempDir(), "crowd.yaml")
	require.NoError(tb, os.WriteFile(file, []byte(b.String()), 0o600))
	return file
}

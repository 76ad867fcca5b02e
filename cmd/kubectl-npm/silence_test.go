package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// twoOwners are two nodes with a pod on each under a default deny, and what kubectl leaves in
// the objects that it prints.
const twoOwners = `
{apiVersion: v1, kind: Node, metadata: {name: win-1}, status: {addresses: [{type: InternalIP, address: 10.240.0.4}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: win-2}, status: {addresses: [{type: InternalIP, address: 10.240.0.5}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}, spec: {nodeName: win-1, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x}, spec: {nodeName: win-2, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: late, namespace: x}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: host, namespace: sys}, spec: {nodeName: win-2, hostNetwork: true, containers: [{name: c, image: i}]}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: deny
  namespace: x
  creationTimestamp: null
  generation: 1
  resourceVersion: "7"
  uid: "1"
  selfLink: /apis/networking.k8s.io/v1/namespaces/x/networkpolicies/deny
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
  managedFields: [{apiVersion: networking.k8s.io/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}, manager: kubectl, operation: Update}]
spec: {podSelector: {}, policyTypes: [Ingress]}
status: {}
`

// Only its own node may always come in to a pod, not the other ones.
func TestTraceFromANode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.yaml")
	require.NoError(t, os.WriteFile(file, []byte(twoOwners), 0o600))
	for _, tc := range []struct {
		args string
		code int
		said string
	}{
		{"trace 10.240.0.5 x/a:80/TCP", exitBlocked, "into x/a: BLOCKED, policy x/deny isolates x/a"},
		{"trace sys/host x/a:80/TCP", exitBlocked, "into x/a: BLOCKED, "},
		{"trace 10.240.0.4 x/a:80/TCP", exitAllowed, "into x/a: allowed, the node may always come in"},
		{"trace 10.240.0.5 x/b:80/TCP", exitAllowed, "into x/b: allowed, the node may always come in"},
		{"trace sys/host x/b:80/TCP", exitAllowed, "into x/b: allowed, the node may always come in"},
		{"trace node x/b:80/TCP", exitAllowed, "node -> x/b:80/TCP  (10.240.0.5 -> "},
		{"trace x/a 10.240.0.5:80/TCP", exitAllowed, "out of x/a: allowed, "},
		{"trace 10.240.0.5 x/late:80/TCP", exitNoDump, "x/late is on no node yet, and 10.240.0.5 is the address of one: say with --node where it is to run"},
		{"trace 10.240.0.5 x/late:80/TCP --node win-1", exitBlocked, "into x/late: BLOCKED, "},
		{"simulate --once --trace 10.240.0.5->x/a:80/TCP", 0, "TRACE 10.240.0.5->x/a:80/TCP  UNKNOWN\n"},
		{"simulate --once --trace sys/host->x/a:80/TCP -o json", 0, `"allowed":null,"ingress":null`},
		{"simulate --once --trace 10.240.0.4->x/a:80/TCP", 0, "TRACE 10.240.0.4->x/a:80/TCP  ALLOWED\n"},
		{"simulate --once --trace 10.240.0.5->x/a:80/TCP --node win-1", 0, "TRACE 10.240.0.5->x/a:80/TCP  BLOCKED\n"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			code, stdout, stderr := command(t, "", append(strings.Fields(tc.args), "--manifests", file)...)
			require.Equal(t, tc.code, code, stdout+stderr)
			require.Contains(t, stdout+stderr, tc.said)
		})
	}
}

// What has no verdict, or one that others may have, is said, with an exit code.
func TestPodsWithoutAVerdict(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	pod := func(name, address string) string {
		return "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: x}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: '" + address + "'}}"
	}
	six, twice := file("six.yaml", twoOwners+pod("v6", "fd00::7")), file("twice.yaml", twoOwners+pod("one", "10.1.0.7")+pod("two", "10.1.0.7"))
	calico := file("calico.yaml", twoOwners+"\n---\n{apiVersion: crd.projectcalico.org/v1, kind: NetworkPolicy, metadata: {name: theirs, namespace: x}}")
	open := file("open.yaml", `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: open, namespace: x}, spec: {podSelector: {}, ingress: [{}]}}`)
	const noIPv4 = "Pod x/v6: NoIPv4: its only address is fd00::7: WinNPM judges IPv4 only, so no policy holds for this pod and no verdict has it"
	for _, tc := range []struct {
		args string
		code int
		said string
	}{
		{"simulate --once --manifests " + six, 3, noIPv4},
		{"plan -f " + open + " --manifests " + six, 3, noIPv4},
		{"plan -f " + open + " -o json --manifests " + six, 3, `"reason":"NoIPv4"`},
		{"trace x/v6 x/a:80/TCP --manifests " + six, exitNoDump, "x/v6 cannot be asked about: the pod has no IPv4 address, or none yet; WinNPM judges IPv4 only"},
		{"simulate --once --manifests " + twice, 3, "AddressContested: address 10.1.0.7 is claimed by x/two, x/one"},
		{"plan -f " + open + " --manifests " + twice, 3, "AddressContested: address 10.1.0.7 is claimed by x/two, x/one"},
		{"trace x/two x/a:80/TCP --manifests " + twice, exitBlocked, "AddressContested: address 10.1.0.7 is claimed by x/two, x/one"},
		{"trace x/two 192.0.2.1:80/TCP --manifests " + twice, exitAllowed, "AddressContested: address 10.1.0.7 is claimed by x/two, x/one"},
		{"trace x/one 192.0.2.1:80/TCP --manifests " + twice, exitUnknown, "It is not known to be x/one that has its address: "},
		{"trace x/one 192.0.2.1:80/TCP -o json --manifests " + twice, exitUnknown, `"verdict":"unknown"`},
		{"plan -f " + open + " --manifests " + calico, 3, "NetworkPolicy x/theirs: NotEnforced: "},
		{"plan -f " + open + " --manifests " + file("plain.yaml", twoOwners), 0, "x/open: new"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			code, stdout, stderr := command(t, "", strings.Fields(tc.args)...)
			require.Equal(t, tc.code, code, stdout+stderr)
			require.Contains(t, stdout+stderr, tc.said)
		})
	}
}

// Everything that is refused is said at once, one line each.
func TestAllBadDocuments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: Bad}\n---\n"+badPolicy+"\n---\nkind: 7\n"), 0o600))
	for verb, args := range map[string]string{"simulate": "--once", "trace": "a/b c/d:80/TCP"} {
		code, stdout, stderr := command(t, "", append([]string{verb, "--manifests", file}, strings.Fields(args)...)...)
		require.Equal(t, 1, code)
		require.Empty(t, stdout)
		lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
		require.Len(t, lines, 3, stderr)
		for i, begin := range []string{":3: document 1: Pod Bad: metadata.name: ", ":5: document 2: NetworkPolicy sandbox/bad: spec.ingres: unknown field", ":7: document 3: kind: is missing or no text"} {
			require.True(t, strings.HasPrefix(lines[i], "kubectl npm: "+verb+": "+file+begin), lines[i])
		}
	}
}

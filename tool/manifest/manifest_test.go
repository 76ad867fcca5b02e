package manifest_test

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	unicodeutf16 "unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/manifest"
)

// mustLoad reads text that is accepted without a warning.
func mustLoad(t *testing.T, text string, o manifest.Options) manifest.Objects {
	t.Helper()
	o.Stdin = strings.NewReader(text)
	objects, warnings, err := manifest.Load([]string{"-"}, o)
	require.NoError(t, err)
	require.Empty(t, warnings)
	return objects
}

// podNames returns namespace/name@node of each pod.
func podNames(pods []*corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Namespace+"/"+p.Name+"@"+p.Spec.NodeName)
	}
	return out
}

func namespaceNames(o manifest.Objects) []string {
	var out []string
	for _, ns := range o.Namespaces {
		out = append(out, ns.Name)
	}
	return out
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func podNamed(name string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: x}\n"
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "b.yml", podNamed("b"))
	write(t, dir, "a.yaml", podNamed("a"))
	write(t, dir, "c.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c","namespace":"x"}}`)
	write(t, dir, "README.md", "not a manifest: [")
	write(t, dir, "sub/d.yaml", podNamed("d"))
	write(t, dir, "sub.yaml/e.yaml", podNamed("e"))
	require.NoError(t, os.Symlink(filepath.Join(dir, "sub", "d.yaml"), filepath.Join(dir, "link.yaml")))
	single := write(t, t.TempDir(), "no-extension", podNamed("f"))

	o, warnings, err := manifest.Load([]string{dir, single}, manifest.Options{})
	require.NoError(t, err)
	require.Equal(t, []state.Warning{{
		Object: filepath.Join(dir, "sub"), Kind: "Folder", Reason: manifest.FolderSkipped,
		Message: "the folder " + filepath.Join(dir, "sub") + " has manifests and is left out, as are other folders below " + dir + ": add -R to read them",
	}}, warnings)
	require.Equal(t, []string{"x/a@", "x/b@", "x/c@", "x/d@", "x/f@"}, podNames(o.Pods))

	require.NoError(t, os.Remove(filepath.Join(dir, "link.yaml")))
	write(t, dir, ".git/f.yaml", podNamed("hidden"))
	o, warnings, err = manifest.Load([]string{dir}, manifest.Options{Recursive: true})
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, []string{"x/a@", "x/b@", "x/c@", "x/d@", "x/e@"}, podNames(o.Pods))
}

// TestFoldersOfOtherTools: charts and kustomizations are not read as if they were manifests,
// and what is beside them is not taken for the whole.
func TestFoldersOfOtherTools(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "app/kustomization.yaml", "resources: [a.yaml]\n")
	write(t, dir, "app/a.yaml", podNamed("a"))
	write(t, dir, "chart/Chart.yaml", "apiVersion: v2\nname: c\n")
	write(t, dir, "chart/values.yaml", "a: 1\n")
	write(t, dir, "chart/templates/t.yaml", "{{ .Values.a }}\n")
	app, chart := filepath.Join(dir, "app"), filepath.Join(dir, "chart")
	kustomized := state.Warning{
		Object: app, Kind: "Folder", Reason: manifest.FolderSkipped,
		Message: "the folder " + app + " has a kustomization, which is not applied to the manifests beside it: give what kubectl kustomize " + app + " prints",
	}
	rendered := "the folder " + chart + " is a Helm chart, which is not rendered: give what helm template " + chart + " prints"

	o, warnings, err := manifest.Load([]string{app}, manifest.Options{})
	require.NoError(t, err)
	require.Equal(t, []state.Warning{kustomized}, warnings)
	require.Len(t, o.Pods, 1)

	_, _, err = manifest.Load([]string{chart}, manifest.Options{})
	require.EqualError(t, err, chart+": there is no manifest to read: "+rendered)

	o, warnings, err = manifest.Load([]string{dir}, manifest.Options{Recursive: true})
	require.NoError(t, err)
	require.Equal(t, []state.Warning{kustomized, {Object: chart, Kind: "Folder", Reason: manifest.FolderSkipped, Message: rendered}}, warnings)
	require.Len(t, o.Pods, 1)
}

func TestUnreadablePaths(t *testing.T) {
	empty := t.TempDir()
	_, _, err := manifest.Load([]string{empty}, manifest.Options{})
	require.EqualError(t, err, empty+": the folder has no .yaml, .yml or .json file; name the folder that has")

	missing := filepath.Join(empty, "nowhere")
	_, _, err = manifest.Load([]string{missing}, manifest.Options{})
	require.EqualError(t, err, missing+": cannot be read: no such file or directory; check the path")
	require.ErrorIs(t, err, fs.ErrNotExist)

	require.NoError(t, os.Symlink(missing, filepath.Join(empty, "dangling.yaml")))
	_, _, err = manifest.Load([]string{empty}, manifest.Options{})
	require.EqualError(t, err, filepath.Join(empty, "dangling.yaml")+": cannot be read: no such file or directory; check the path")
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("pipe is gone") }

func TestBrokenStdin(t *testing.T) {
	_, _, err := manifest.Load([]string{"-"}, manifest.Options{Stdin: brokenReader{}})
	require.EqualError(t, err, "stdin: cannot be read: pipe is gone")
}

// Objects of one name in two files are duplicates; the error names both.
func TestDuplicateAcrossFiles(t *testing.T) {
	dir := t.TempDir()
	a := write(t, dir, "a.yaml", podNamed("first")+"---\n"+podNamed("p"))
	b := write(t, dir, "b.yaml", podNamed("p"))
	_, _, err := manifest.Load([]string{dir}, manifest.Options{})
	require.EqualError(t, err, b+":3: document 1: Pod x/p: metadata.name: the object is there twice, first in "+a+" document 2; remove or rename one")
}

// The same pods, however they are written down.
func TestForms(t *testing.T) {
	const a, b = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: x\n", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: b\n  namespace: x\n"
	const jsonA, jsonB = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"x"}}`,
		"{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\",\n\t\"metadata\": {\"name\": \"b\", \"namespace\": \"x\"}\n}"
	for name, text := range map[string]string{
		"documents":           a + "---\n" + b,
		"markers all around":  "%YAML 1.1\n---\n" + a + "...\n---\n" + b + "---\n...\n",
		"comments only":       "# hello\n---\n" + a + "--- # between\n# nothing here\n\n---   \n" + b + "---\n# end\n",
		"CRLF":                strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"),
		"byte order mark":     "\uFEFF" + a + "---\n" + b,
		"UTF-16":              utf16(binary.LittleEndian, a+"---\n"+b),
		"UTF-16, big endian":  utf16(binary.BigEndian, a+"---\n"+b),
		"no end of line":      a + "---\n" + strings.TrimSuffix(b, "\n"),
		"list":                "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n- " + jsonA + "\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: b, namespace: x}\n",
		"typed list":          "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a, namespace: x}\n- metadata: {name: b, namespace: x}\n",
		"list in a list":      "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: [" + jsonA + "]}\n- {apiVersion: v1, kind: List, items: []}\n- null\n---\n" + b,
		"json":                jsonA + jsonB,
		"json in documents":   jsonA + "\n---\n" + jsonB,
		"json lines and yaml": jsonA + "\n---\n" + b,
		"flow style":          "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}}\n--- {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x}}\n",
		"anchors":             "apiVersion: v1\nkind: Pod\nmetadata: &m\n  namespace: x\n  name: a\n---\n" + b,
		"marker in a text":    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: x\n  annotations:\n    text: |\n      ---\n      ...\n---\n" + b,
		"empty and null":      "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: x\n  creationTimestamp: null\nspec: {}\nstatus: {}\n---\n" + b + "status:\n",
	} {
		t.Run(name, func(t *testing.T) {
			o := mustLoad(t, text, manifest.Options{})
			require.Equal(t, []string{"x/a@", "x/b@"}, podNames(o.Pods))
			for _, p := range o.Pods {
				require.Empty(t, p.Status, "which a null and an empty one are as well")
			}
		})
	}
}

// utf16 encodes text with a byte order mark, as editors and shells of Windows do.
func utf16(order binary.AppendByteOrder, text string) string {
	var out []byte
	for _, unit := range unicodeutf16.Encode([]rune("\uFEFF" + text)) {
		out = order.AppendUint16(out, unit)
	}
	return string(out)
}

func TestNothing(t *testing.T) {
	for _, text := range []string{"apiVersion: v1\nkind: List\n", "null\n"} {
		require.True(t, mustLoad(t, text, manifest.Options{}).Empty(), text)
	}
	for _, text := range []string{"", "\n", "# nothing\n---\n# at all\n"} {
		_, _, err := load(text)
		require.ErrorIs(t, err, manifest.ErrEmpty, text)
	}
}

func TestWarnings(t *testing.T) {
	o, warnings, err := load(strings.Join([]string{
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: other}\ndata: {a: 1}\n",
		np("{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.1.2.3/16, except: [10.1.2.3/24]}}]}], egress: [{to: [{ipBlock: {cidr: '2001:db8::1/32'}}]}]}"),
		"apiVersion: example.com/v1\nkind: Node\nmetadata: {name: n1}\n",
		"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\n",
		"apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: [l]}\n",
	}, "---\n"))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]state.Warning{
		{Object: "other/c", Kind: "ConfigMap", Reason: manifest.SkippedKind, Message: "stdin document 1: kind ConfigMap of v1 is none that is read and is skipped"},
		{Object: "x/p", Kind: "NetworkPolicy", Reason: manifest.HostBitsMasked, Message: `spec.ingress[0].from[0].ipBlock.cidr: "10.1.2.3/16" has bits behind its mask; 10.1.0.0/16 is used`},
		{Object: "x/p", Kind: "NetworkPolicy", Reason: manifest.HostBitsMasked, Message: `spec.ingress[0].from[0].ipBlock.except[0]: "10.1.2.3/24" has bits behind its mask; 10.1.2.0/24 is used`},
		{Object: "x/p", Kind: "NetworkPolicy", Reason: manifest.HostBitsMasked, Message: `spec.egress[0].to[0].ipBlock.cidr: "2001:db8::1/32" has bits behind its mask; 2001:db8::/32 is used`},
		{Object: "n1", Kind: "Node", Reason: manifest.SkippedKind, Message: "stdin document 3: kind Node of example.com/v1 is none that is read and is skipped"},
		{Object: "j", Kind: "Job", Reason: manifest.SkippedKind, Message: "stdin document 4: kind Job of batch.volcano.sh/v1alpha1 is none that is read and is skipped"},
		{Object: "", Kind: "AllowList", Reason: manifest.SkippedKind, Message: "stdin document 5: kind AllowList of example.com/v1 is none that is read and is skipped"},
	}, warnings))
	block := o.Policies[0].Spec.Ingress[0].From[0].IPBlock
	require.Equal(t, "10.1.0.0/16", block.CIDR)
	require.Equal(t, []string{"10.1.2.0/24"}, block.Except)
}

package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/test/effort"
)

// evil is what steers a terminal, turns text around, or forges a line.
const evil = "\x1b[31m\u009b2J\a\u202e\nFORGED\r\x7f\u2028\t\U000e0041"

// textsWorld are manifests with something of everything that npm reads.
const textsWorld = `[
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x","labels":{"team":"a"}}},
{"apiVersion":"v1","kind":"Node","metadata":{"name":"win-1","labels":{"kubernetes.io/os":"windows"}},"status":{"addresses":[{"type":"InternalIP","address":"10.9.0.1"}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"x","uid":"u-a","labels":{"app":"web"}},
 "spec":{"nodeName":"win-1","containers":[{"name":"c","ports":[{"name":"http","containerPort":80,"protocol":"TCP"}]}]},"status":{"podIP":"10.0.0.1","phase":"Running"}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","namespace":"x","uid":"u-b"},
 "spec":{"nodeName":"win-1","containers":[{"name":"c"}]},"status":{"podIP":"10.0.0.2","phase":"Running"}},
{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"p","namespace":"x","uid":"u-p"},
 "spec":{"podSelector":{"matchLabels":{"app":"web"}},"policyTypes":["Ingress","Egress"],
  "ingress":[{"from":[{"podSelector":{"matchExpressions":[{"key":"app","operator":"NotIn","values":["db"]}]},"namespaceSelector":{"matchLabels":{"team":"a"}}},{"ipBlock":{"cidr":"fd00::/8"}}],"ports":[{"port":"http","protocol":"TCP"}]}],
  "egress":[{"to":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}}],"ports":[{"port":80,"endPort":90}]},{"to":[{"podSelector":{}}],"ports":[{"port":"http"}]}]}}
]`

// clean checks what a command says: it can be printed, and no line in it is another's.
func clean(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	for _, text := range []string{stdout, stderr} {
		for _, r := range text {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q in:\n%q", r, text)
			}
		}
		for l := range strings.Lines(text) {
			require.False(t, strings.HasPrefix(strings.TrimSpace(l), "FORGED"), "a name made a line:\n%s", text)
		}
	}
	said := 0
	for l := range strings.Lines(stderr) {
		if json.Valid([]byte(l)) { // logs are
			continue
		}
		if said++; said > 1 {
			require.Regexp(t, `^kubectl npm: [a-z]+: ([^ :]+:\d+: document \d+|and \d+ more)`, l, "one line, or one for each document that is refused")
		}
	}
	if strings.HasPrefix(stdout, "{") {
		require.True(t, json.Valid([]byte(stdout)), stdout)
	}
}

// spoil calls use once for each place of a JSON value that has a text, with that text
// spoiled there: values and keys, one of each list. For a change it is one place of
// seven, by the alphabet.
func spoil(t *testing.T, text string, use func(place, spoiled string)) {
	t.Helper()
	var v any
	in := json.NewDecoder(strings.NewReader(text))
	in.UseNumber()
	require.NoError(t, in.Decode(&v))
	places := map[string]bool{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, entry := range v {
				places[at+"."+key+" key"] = true
				walk(at+"."+key, entry)
			}
		case []any:
			for _, entry := range v {
				walk(at+"[]", entry)
			}
		case string:
			places[at] = true
		}
	}
	walk("", v)
	for i, place := range slices.Sorted(maps.Keys(places)) {
		if i%effort.Of(7, 1) != 0 {
			continue
		}
		var copied func(at string, v any) any
		copied = func(at string, v any) any {
			switch v := v.(type) {
			case map[string]any:
				out := map[string]any{}
				for key, entry := range v {
					name := key
					if at+"."+key+" key" == place {
						name += evil
					}
					out[name] = copied(at+"."+key, entry)
				}
				return out
			case []any:
				out := []any{}
				for _, entry := range v {
					out = append(out, copied(at+"[]", entry))
				}
				return out
			case string:
				if at == place {
					return v + evil
				}
			}
			return v
		}
		spoiled, err := json.Marshal(copied("", v))
		require.NoError(t, err)
		use(place, string(spoiled))
	}
}

// documents are the objects of a JSON list as npm reads manifests.
func documents(t *testing.T, list string) string {
	t.Helper()
	var objects []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(list), &objects))
	var out []string
	for _, o := range objects {
		out = append(out, string(o))
	}
	return strings.Join(out, "\n---\n")
}

// bundleOf makes a support bundle of manifests, and returns its file and the texts in it.
func bundleOf(t *testing.T, manifests string) (file string, texts map[string]string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "b.zip")
	code, _, stderr := command(t, "", "support-bundle", "--manifests", manifests, "-o", file)
	require.Zero(t, code, stderr)
	z, err := zip.OpenReader(file)
	require.NoError(t, err)
	defer z.Close()
	texts = map[string]string{}
	for _, f := range z.File {
		in, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(in)
		require.NoError(t, err)
		texts[f.Name] = string(text)
	}
	return file, texts
}

// worldBundle returns the texts in a support bundle of the world.
func worldBundle(t *testing.T) map[string]string {
	t.Helper()
	world := filepath.Join(t.TempDir(), "w.yaml")
	require.NoError(t, os.WriteFile(world, []byte(documents(t, textsWorld)), 0o600))
	_, texts := bundleOf(t, world)
	return texts
}

// zipOf writes files as a bundle.
func zipOf(t *testing.T, files map[string]string) (path string) {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, text := range files {
		w, err := z.Create(name)
		require.NoError(t, err)
		_, err = io.WriteString(w, text)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	path = filepath.Join(t.TempDir(), "spoiled.zip")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	return path
}

const textsQuestion = "x/b->x/a:80/TCP"

// Whatever stands in a manifest, no command shows it as anything else than text.
func TestTextsOfManifests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.json")
	try := func(place, text string) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		for _, args := range [][]string{
			{"simulate", "--manifests", file, "--once", "--matrix", "80/TCP", "--trace", textsQuestion, "--log-level", "debug"},
			{"simulate", "--manifests", file, "--once", "-o", "json"},
			{"trace", textsQuestion, "--manifests", file},
			{"plan", "-f", file, "--manifests", "../../examples/shop"},
		} {
			t.Run(place+"/"+args[0], func(t *testing.T) {
				code, stdout, stderr := command(t, "", args...)
				clean(t, code, stdout, stderr)
			})
		}
	}
	spoil(t, textsWorld, func(place, spoiled string) { try(place, documents(t, spoiled)) })
	try("no JSON", "kind: \""+evil+"\n  "+evil)
	try("kind", `{"apiVersion":"v1","kind":"\u001b]0;owned\u0007","metadata":{"name":"\u001b[2J"}}`)
}

// Nor of a dump, whoever made it.
func TestTextsOfDumps(t *testing.T) {
	files := worldBundle(t)
	file := filepath.Join(t.TempDir(), "dump.json")
	policies := filepath.Join(t.TempDir(), "p.yaml")
	require.NoError(t, os.WriteFile(policies, []byte(`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"new","namespace":"x"},"spec":{"podSelector":{}}}`), 0o600))
	spoil(t, files[debug.BundleDump], func(place, spoiled string) {
		require.NoError(t, os.WriteFile(file, []byte(spoiled), 0o600))
		for _, args := range [][]string{
			{"trace", textsQuestion}, {"trace", textsQuestion, "-o", "json"}, {"trace", "x/a->x/b:80/TCP"},
			{"plan", "-f", policies}, {"plan", "-f", policies, "-o", "json"},
		} {
			t.Run(fmt.Sprint(place, "/", args), func(t *testing.T) {
				code, stdout, stderr := command(t, "", append(args, "--dump", file)...)
				clean(t, code, stdout, stderr)
			})
		}
	})
}

// Nor of a recording, nor of the other files of a support bundle.
func TestTextsOfBundles(t *testing.T) {
	files := worldBundle(t)
	try := func(place string, name, text string) {
		other := maps.Clone(files)
		other[name] = text
		path := zipOf(t, other)
		t.Run(place, func(t *testing.T) {
			code, stdout, stderr := command(t, "", "replay", path)
			clean(t, code, stdout, stderr)
		})
	}
	lines := strings.Split(strings.TrimSpace(files[debug.BundleRecording]), "\n")
	for i := range lines {
		spoil(t, lines[i], func(place, spoiled string) {
			other := slices.Clone(lines)
			other[i] = spoiled
			try(fmt.Sprint("line ", i, place), debug.BundleRecording, strings.Join(other, "\n"))
		})
	}
	try("version", debug.BundleVersion, evil)
	try("no dump", debug.BundleDump, evil)
	try("no recording", debug.BundleRecording, evil)
}

// Nor of an agent's or an API server's answers and errors.
func TestTextsOfServers(t *testing.T) {
	quoted, err := json.Marshal(evil)
	require.NoError(t, err)
	text := string(quoted)
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%s,"message":%s}`
	for name, answer := range map[string]string{
		"status line":  "HTTP/1.1 500 \x1b[31m\x9b\a\r\n\r\n" + evil,
		"plain error":  "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\r\n" + evil,
		"forbidden":    "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\n\r\n" + fmt.Sprintf(status, 403, `"Forbidden"`, text),
		"another":      "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n\r\n" + fmt.Sprintf(status, 400, text, text),
		"no such":      "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n\r\n" + fmt.Sprintf(status, 404, `"NotFound"`, text),
		"other object": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + `{"apiVersion":"v1","kind":` + text + `}`,
		"a warning":    "HTTP/1.1 200 OK\r\nWarning: 299 - \"\x1b[31mred\x9b\"\r\nContent-Type: application/json\r\n\r\n" + `{"apiVersion":"v1","kind":"Pod","metadata":{"name":` + text + `},"spec":{"nodeName":` + text + `}}`,
		"agents":       "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":` + text + `,"namespace":` + text + `},"status":{"phase":` + text + `}}]}`,
		"no answer":    "\x1b[31m" + evil,
		"no dump":      "HTTP/1.1 200 OK\r\n\r\n" + `{"NodeName":` + text + `,"time":` + text + `}`,
		"moved away":   "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\u009b\u202e\r\n\r\n",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, answer)
		}))
		t.Cleanup(server.Close)
		kubeconfig := kubeconfigOf(t, server.URL)
		for _, args := range [][]string{
			{"trace", textsQuestion, "--kubeconfig", kubeconfig},
			{"trace", textsQuestion, "--kubeconfig", kubeconfig, "--node", "win-1"},
			{"support-bundle", "--kubeconfig", kubeconfig, "--node", "win-1", "-o", filepath.Join(t.TempDir(), "b.zip")},
			{"plan", "-f", filepath.Join(shop, "21-shop-policies.yaml"), "--kubeconfig", kubeconfig},
		} {
			t.Run(fmt.Sprint(name, "/", args[:2], len(args)), func(t *testing.T) {
				code, stdout, stderr := command(t, "", args...)
				require.NotZero(t, code)
				clean(t, code, stdout, stderr)
			})
		}
	}
}

package manifest_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/winnpm/winnpm/tool/manifest"
)

const examples = "../../examples"

// Whatever is read, Load returns, an error is one printable line of type
// *Error, and objects that are accepted are complete.
func FuzzLoad(f *testing.F) {
	for _, c := range badInputs(f) {
		f.Add([]byte(c.text))
	}
	for _, c := range clusterCases(f) {
		f.Add([]byte(c.Policy))
	}
	f.Add([]byte(twoNodes + pod("{}")))
	f.Add([]byte(deployment("{replicas: 3}")))
	f.Add([]byte("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"))
	err := filepath.WalkDir(examples, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		f.Add(text)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, warnings, err := manifest.Load([]string{"-"}, manifest.Options{Stdin: bytes.NewReader(text)})
		if err != nil {
			var e *manifest.Error
			if !errors.As(err, &e) {
				t.Fatalf("%T: %v", err, err)
			}
			for _, l := range manifest.Lines(err) {
				checkLine(t, l)
				if !strings.HasPrefix(l, "stdin:") && !strings.HasPrefix(l, "and ") {
					t.Fatalf("no place: %s", err)
				}
			}
		}
		for _, w := range warnings {
			checkLine(t, w.Message)
		}
		for _, ns := range o.Namespaces {
			if ns.Labels["kubernetes.io/metadata.name"] != ns.Name {
				t.Fatalf("incomplete namespace %s", ns.Name)
			}
		}
		for _, pod := range o.Pods {
			if pod.Namespace == "" {
				t.Fatalf("incomplete pod %s/%s", pod.Namespace, pod.Name)
			}
		}
		for _, np := range o.Policies {
			if np.Namespace == "" || len(np.Spec.PolicyTypes) == 0 {
				t.Fatalf("incomplete policy %s/%s", np.Namespace, np.Name)
			}
			place, ok := o.Places[np.Namespace+"/"+np.Name]
			if line, err := strconv.Atoi(strings.TrimPrefix(place, "stdin:")); ok && (err != nil || line < 1 || line > bytes.Count(text, []byte("\n"))+1) {
				t.Fatalf("policy %s/%s is at %q", np.Namespace, np.Name, place)
			}
		}
		for _, p := range o.ClusterPolicies {
			if p.Namespace != "" || p.Spec.Tier == "" {
				t.Fatalf("incomplete policy %s", p.Name)
			}
		}
	})
}

func checkLine(t *testing.T, s string) {
	t.Helper()
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Fatalf("not one printable line: %q", s)
	}
}

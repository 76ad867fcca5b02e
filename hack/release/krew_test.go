package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The manifest names each archive with the checksum that SHA256SUMS has of it.
func TestKrew(t *testing.T) {
	t.Parallel()
	r := release{version: "v0.1.0", dist: t.TempDir()}
	targets := []target{{"darwin", "arm64"}, {"windows", "amd64"}}
	for _, one := range targets {
		if err := r.save(r.archiveName(one), []byte(one.goos)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.saveKrew(targets); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.dist, krewFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range targets {
		sum, err := r.sum(r.archiveName(one))
		if err != nil {
			t.Fatal(err)
		}
		want := "download/v0.1.0/" + r.archiveName(one) + "\n    sha256: " + sum + "\n    bin: kubectl-npm" + one.exe() + "\n"
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "<no value>") || strings.Contains(string(text), "{{") {
		t.Errorf("something is left to fill in:\n%s", text)
	}
}

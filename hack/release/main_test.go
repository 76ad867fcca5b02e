package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

func TestBOM(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Path: "example.com/m/cmd/x", Main: debug.Module{Path: "example.com/m", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v1.0.0+incompatible", Sum: "h1:x"},
			{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/c", Version: "v2.0.0"}},
		},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "windows"}},
	}
	bom := bom(info, "v0.1.0", "abc")
	if bom.SerialNumber != "" || bom.Metadata.Timestamp != "" {
		t.Errorf("it differs from run to run: %q %q", bom.SerialNumber, bom.Metadata.Timestamp)
	}
	if ref := bom.Metadata.Component.BOMRef; ref != "pkg:golang/example.com/m@v0.1.0#cmd/x" {
		t.Error(ref)
	}
	want := []string{"pkg:golang/std@1.26.8", "pkg:golang/example.com/a@v1.0.0%2Bincompatible", "pkg:golang/example.com/c@v2.0.0"}
	if needs := *(*bom.Dependencies)[0].Dependencies; !slices.Equal(needs, want) {
		t.Error(needs)
	}
}

// TestSaveBOM reads a real program, which is this test.
func TestSaveBOM(t *testing.T) {
	t.Parallel()
	itself, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "x.cdx.json")
	if err := saveBOM(file, itself, "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(f, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool { return c.Name == "github.com/CycloneDX/cyclonedx-go" }) {
		t.Error("it does not list a module that is linked into it")
	}
	if err := saveBOM(file, "main.go", "v0.1.0"); err == nil {
		t.Error("a text has a bill of materials")
	}
}

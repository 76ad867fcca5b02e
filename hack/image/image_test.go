package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// loopback is a registry of the test.
func loopback(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// hostProcess is an image as the base is: a few files that Windows wants of every container.
func hostProcess(t *testing.T, version string) v1.Image {
	t.Helper()
	var content bytes.Buffer
	files := tar.NewWriter(&content)
	for _, dir := range []string{"Files", "Hives", "UtilityVM"} {
		must(t, files.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o555}))
	}
	must(t, files.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil })
	must(t, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	must(t, err)
	config, err := image.ConfigFile()
	must(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture, config.OSVersion = "windows", "amd64", version
	config.Config.Cmd = []string{"of the base"}
	image, err = mutate.ConfigFile(image, config)
	must(t, err)
	return image
}

// publish puts a base into a registry, and returns its name by digest.
func publish(t *testing.T, host string, image v1.Image) string {
	t.Helper()
	ref, err := name.NewTag(host + "/base:v1")
	must(t, err)
	must(t, remote.Write(ref, image))
	digest, err := image.Digest()
	must(t, err)
	return ref.Context().Digest(digest.String()).String()
}

// publishIndex puts an index of one image for each version of Windows, and one for Linux.
func publishIndex(t *testing.T, host string, versions ...string) string {
	t.Helper()
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: empty.Image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
	})
	for _, version := range versions {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: hostProcess(t, version), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "windows", Architecture: "amd64", OSVersion: version}},
		})
	}
	ref, err := name.NewTag(host + "/bases:v2")
	must(t, err)
	must(t, remote.WriteIndex(ref, index))
	digest, err := index.Digest()
	must(t, err)
	return ref.Context().Digest(digest.String()).String()
}

// built is a folder with programs.
func built(t *testing.T, content string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range append([]string{"contract.exe"}, programs...) {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(content+name), 0o600))
	}
	return folder
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestImage: an image has the layers of its base and one with our programs, in the form that
// Windows wants, for the Windows that the base is for.
func TestImage(t *testing.T) {
	t.Parallel()
	host := loopback(t)
	base, to := publish(t, host, hostProcess(t, "")), host+"/npm:v1"
	var out strings.Builder
	must(t, run(t.Context(), []string{"-base", base, "-programs", built(t, "MZ:"), "-version", "v0.1.0", "-to", to}, &out))
	ref, err := name.NewTag(to)
	must(t, err)
	image, err := remote.Image(ref)
	must(t, err)
	digest, err := image.Digest()
	must(t, err)
	if want := ref.Context().Digest(digest.String()).String() + "\n"; out.String() != want {
		t.Errorf("it prints %s, want %s", out.String(), want)
	}
	config, err := image.ConfigFile()
	must(t, err)
	if config.OS != "windows" || config.OSVersion != "" || !slices.Equal(config.Config.Entrypoint, []string{"npm.exe", "start"}) || config.Config.Cmd != nil {
		t.Errorf("%+v", config)
	}
	_, named, _ := strings.Cut(base, "@")
	for key, want := range map[string]string{"version": "v0.1.0", "base.digest": named, "licenses": "Apache-2.0"} {
		if got := config.Config.Labels["org.opencontainers.image."+key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if content := read(t, image, "Files/npm.exe"); content != "MZ:npm.exe" {
		t.Error(content)
	}
}

// read returns a file of the last layer, which has an owner who may run it.
func read(t *testing.T, image v1.Image, file string) string {
	t.Helper()
	layers, err := image.Layers()
	must(t, err)
	content, err := layers[len(layers)-1].Uncompressed()
	must(t, err)
	defer func() { _ = content.Close() }()
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("there is no %s", file)
		}
		must(t, err)
		if header.Name == file {
			if header.PAXRecords["MSWINDOWS.rawsd"] == "" {
				t.Error("it has no owner on Windows")
			}
			text, err := io.ReadAll(files)
			must(t, err)
			return string(text)
		}
	}
}

// TestIndex: of a base with one image for each system the one for Windows is taken.
func TestIndex(t *testing.T) {
	t.Parallel()
	host := loopback(t)
	to := host + "/npm:v1"
	must(t, run(t.Context(), []string{"-base", publishIndex(t, host, "10.0.20348.3091"), "-programs", built(t, "MZ:"), "-to", to}, io.Discard))
	ref, err := name.NewTag(to)
	must(t, err)
	image, err := remote.Image(ref)
	must(t, err)
	if content := read(t, image, "Files/winnpm-cni.exe"); content != "MZ:winnpm-cni.exe" {
		t.Error(content)
	}
}

// TestReproducible: two builds are equal, byte for byte, whenever and wherever they are made, in a
// file. Other programs make another image.
func TestReproducible(t *testing.T) {
	t.Parallel()
	host := loopback(t)
	base := publish(t, host, hostProcess(t, ""))
	var files []string
	for i, content := range []string{"MZ:", "MZ:", "other:"} {
		folder := built(t, content)
		old := time.Date(2001+i, 2, 3, 4, 5, 6, 0, time.UTC)
		must(t, os.Chtimes(filepath.Join(folder, "npm.exe"), old, old))
		to := filepath.Join(t.TempDir(), "npm.tar")
		must(t, run(t.Context(), []string{"-base", base, "-programs", folder, "-version", "v0.1.0", "-to", to}, io.Discard))
		text, err := os.ReadFile(to)
		must(t, err)
		files = append(files, string(text))
		image, err := tarball.ImageFromPath(to, nil)
		must(t, err)
		if got := read(t, image, "Files/npm.exe"); got != content+"npm.exe" {
			t.Error(got)
		}
	}
	if files[0] != files[1] || files[0] == files[2] {
		t.Errorf("%d, %d and %d bytes: the first two have to be equal, the third not", len(files[0]), len(files[1]), len(files[2]))
	}
}

// TestRefused: a mistake is one line that says what to do, and nothing is written.
func TestRefused(t *testing.T) {
	t.Parallel()
	host := loopback(t)
	windows, to := publish(t, host, hostProcess(t, "")), filepath.Join(t.TempDir(), "npm.tar")
	absent := windows[:len(windows)-64] + strings.Repeat("0", 64)
	for _, tt := range []struct{ base, programs, to, says string }{
		{host + "/base:v1", built(t, ""), to, "has no digest: name it as NAME@sha256:..."},
		{absent, built(t, ""), to, "MANIFEST_UNKNOWN"},
		{publish(t, host, empty.Image), built(t, ""), to, `is for ""`},
		{publishIndex(t, host), built(t, ""), to, "no child with platform windows/amd64"},
		{windows, t.TempDir(), to, "npm.exe"},
		{windows, built(t, ""), "NAME:", "say REGISTRY/NAME:TAG, or a file that ends in .tar"},
	} {
		err := run(t.Context(), []string{"-base", tt.base, "-programs", tt.programs, "-to", tt.to}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(strings.TrimSpace(err.Error()), "\n") {
			t.Errorf("%+v: %v", tt, err)
		}
		if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%+v: there is a file", tt)
		}
	}
}

// TestScript: hack/image.sh, which people and the workflow run, makes an image of what a release
// has, on the base that it is told, and adds its checksum to those of the release.
func TestScript(t *testing.T) {
	t.Parallel()
	host := loopback(t)
	base, dist := publish(t, host, hostProcess(t, "")), built(t, "MZ:")
	sums := filepath.Join(dist, "SHA256SUMS")
	must(t, os.WriteFile(sums, nil, 0o600))
	script := func(to string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "../image.sh", to)
		command.Env = append(os.Environ(), "BASE_IMAGE="+base, "PROGRAMS="+dist, "VERSION=v0.1.0")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	file := filepath.Join(dist, "winnpm-image.tar")
	if got := script(file); got != "" {
		t.Error(got)
	}
	text, err := os.ReadFile(sums)
	must(t, err)
	if !regexp.MustCompile(`^[0-9a-f]{64}  winnpm-image\.tar\n$`).Match(text) {
		t.Errorf("the checksums are %q", text)
	}
	if got := script(host + "/npm:v1"); !strings.HasPrefix(got, host+"/npm@sha256:") {
		t.Error(got)
	}
	out, err := exec.CommandContext(t.Context(), "../image.sh").CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "usage: ") {
		t.Error(fmt.Sprint(err), string(out))
	}
}

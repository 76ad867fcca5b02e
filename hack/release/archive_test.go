package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
)

// What an archive says of its files does not depend on the day, the machine or its umask.
func TestArchives(t *testing.T) {
	t.Parallel()
	entries := []entry{{"LICENSE", 0o644, []byte("free")}, {"winnpm", 0o755, bytes.Repeat([]byte("x"), 4096)}}
	want := []string{"LICENSE -rw-r--r-- 1980-01-01 4", "winnpm -rwxr-xr-x 1980-01-01 4096"}
	for _, goos := range []string{"linux", "windows"} {
		packed, err := target{goos, "amd64"}.archive(entries)
		if err != nil {
			t.Fatal(err)
		}
		if got := listing(t, goos, packed); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", goos, got, want)
		}
	}
}

func listing(t *testing.T, goos string, packed []byte) []string {
	t.Helper()
	var lines []string
	if goos == "windows" {
		r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.File {
			lines = append(lines, fmt.Sprintf("%s %s %s %d", f.Name, f.Mode(), f.Modified.UTC().Format("2006-01-02"), f.UncompressedSize64))
		}
		return lines
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if !unzipped.ModTime.IsZero() || unzipped.Name != "" {
		t.Errorf("the header of gzip has %s %q", unzipped.ModTime, unzipped.Name)
	}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" {
			t.Errorf("%s belongs to %d %q", header.Name, header.Uid, header.Uname)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %d", header.Name, header.FileInfo().Mode(), header.ModTime.UTC().Format("2006-01-02"), header.Size))
	}
}

package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// programs are the files of the image, at its root: what deploy/base starts, and the CNI
// plugin, which npm install-cni looks for beside itself.
var programs = []string{"npm.exe", "winnpm-cni.exe"}

// builtAt is the time of every file, so that an image tells what is in it and not when it was made.
var builtAt = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// program is one file of the image.
type program struct {
	name    string
	content []byte
}

// readPrograms reads them from a folder.
func readPrograms(folder string) ([]program, error) {
	var read []program
	for _, name := range programs {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, fmt.Errorf("the programs: %w; \"make release\" makes them", err)
		}
		read = append(read, program{name, content})
	}
	return read, nil
}

// packed is a tar file of programs.
func packed(content []program) ([]byte, error) {
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	for _, p := range content {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: p.name, Mode: 0o755, Size: int64(len(p.content)), ModTime: builtAt, Format: tar.FormatPAX}
		if err := t.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := t.Write(p.content); err != nil {
			return nil, err
		}
	}
	err := t.Close()
	return out.Bytes(), err
}

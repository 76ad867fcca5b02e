package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name    string
	mode    fs.FileMode
	content []byte
}

// packedAt is the time of every file in an archive, the first that a zip can express.
var packedAt = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// archive packs files in their order, in the format that the platform unpacks without more.
func (t target) archive(entries []entry) ([]byte, error) {
	if t.goos == "windows" {
		return zipped(entries)
	}
	return tarred(entries)
}

func zipped(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: packedAt}
		header.SetMode(e.mode)
		w, err := z.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}

func tarred(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out) // its header has no name and no time
	t := tar.NewWriter(compressed)
	for _, e := range entries {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: int64(e.mode), Size: int64(len(e.content)),
			ModTime: packedAt, Format: tar.FormatUSTAR,
		}
		if err := t.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := t.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := errors.Join(t.Close(), compressed.Close())
	return out.Bytes(), err
}

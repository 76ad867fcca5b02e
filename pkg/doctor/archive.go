package doctor

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/winnpm/winnpm/pkg/bounded"
)

// Files of the zip.
const (
	ReportFile      = "report.html"
	AssumptionsFile = "assumptions.json"
	RecordsFile     = "records.json"
)

// maxFile is how many bytes of a file are read at most, after it was unpacked.
const maxFile = bounded.MaxInput

// ErrNoResult is a file that no doctor made, or that is not whole.
var ErrNoResult = errors.New("no zip of npm doctor")

// WriteZip writes all that was found.
func (r Result) WriteZip(to io.Writer) error {
	z := zip.NewWriter(to)
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{ReportFile, r.writePage},
		{AssumptionsFile, func(w io.Writer) error { return writeJSON(w, r) }},
		{RecordsFile, func(w io.Writer) error { return writeJSON(w, r.Records) }},
	} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.Began})
		if err != nil {
			return err
		}
		if err := f.write(w); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return z.Close()
}

func writeJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(value)
}

// ReadZip reads what WriteZip wrote.
func ReadZip(from io.ReaderAt, size int64) (Result, error) {
	var r Result
	z, err := bounded.Zip(from, size)
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrNoResult, err)
	}
	for name, into := range map[string]any{AssumptionsFile: &r, RecordsFile: &r.Records} {
		if err := readJSON(z, name, into); err != nil {
			return Result{}, fmt.Errorf("%w: %s: %w", ErrNoResult, name, err)
		}
	}
	for _, record := range r.Records {
		if record == nil {
			return Result{}, fmt.Errorf("%w: %s: a record is missing", ErrNoResult, RecordsFile)
		}
		if _, err := fmt.Sscanf(record.HResult, "0x%08x", &record.code); err != nil && record.Error == "" {
			return Result{}, fmt.Errorf("%w: %s: record %d: hresult %q", ErrNoResult, RecordsFile, record.N, record.HResult)
		}
	}
	return r, nil
}

func readJSON(z *zip.Reader, name string, into any) error {
	f, err := z.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxFile:
		return fmt.Errorf("is larger than %d bytes", maxFile)
	}
	return json.Unmarshal(text, into)
}

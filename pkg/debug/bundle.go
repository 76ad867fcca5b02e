package debug

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/cli"
)

// BundlePath is the path of the support bundle: one zip file with the whole state of an agent.
const BundlePath = "/npm/v1/debug/bundle"

// The names of the files in a bundle that other programs read.
const (
	BundleVersion   = "version.txt"
	BundleDump      = "dump.json"
	BundleRecording = "recording.jsonl"
)

// bundleFile is one file of a bundle.
type bundleFile struct {
	name, what string
	write      func(io.Writer) error
}

// bundle lists the files of a bundle.
func (cfg Config) bundle() []bundleFile {
	files := []bundleFile{
		{BundleVersion, "the version of the agent", text(cfg.Version + "\n")},
		{"config.json", "its settings in effect; times in nanoseconds", func(w io.Writer) error {
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			return enc.Encode(cfg.Settings)
		}},
		{BundleDump, "its state, as " + ManagerPath + " answers; kubectl npm trace reads it with --dump", func(w io.Writer) error {
			return writeManager(w, cfg.Dump())
		}},
		{BundleRecording, "the last transactions with every call of HNS, a line of JSON each; kubectl npm replay prints them", cfg.Recording},
		{"health.txt", "what /healthz and /readyz answer", func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "healthz: %s\nreadyz: %s\n", stateText(cfg.Healthy), stateText(cfg.Ready))
			return err
		}},
	}
	if cfg.NodeMetrics != nil {
		files = append(files, metricsFile("node-metrics.txt", NodeMetricsPath, cfg.NodeMetrics), metricsFile("cluster-metrics.txt", ClusterMetricsPath, cfg.ClusterMetrics))
	}
	return append(files, bundleFile{"goroutines.txt", "what every goroutine of the agent is doing", func(w io.Writer) error {
		return pprof.Lookup("goroutine").WriteTo(w, 2) // with how long each has waited
	}})
}

func metricsFile(name, path string, page http.Handler) bundleFile {
	return bundleFile{name, "what " + path + " answers", func(w io.Writer) error {
		req, err := http.NewRequest(http.MethodGet, path, nil)
		if err == nil {
			page.ServeHTTP(body{w, http.Header{}}, req) // if w fails, writing the next file returns the error
		}
		return err
	}}
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func stateText(state func() error) string {
	if err := state(); err != nil {
		return cli.Printable(err.Error())
	}
	return "ok"
}

// body is an http.ResponseWriter that passes on the body alone.
type body struct {
	io.Writer
	header http.Header
}

func (b body) Header() http.Header { return b.header }
func (b body) WriteHeader(int)     {}

// WriteBundle writes a support bundle, file by file. It needs Dump, Recording, Healthy and Ready.
// The bundle contains names, labels, addresses and policies of the cluster. It contains no Secrets,
// annotations, environments or credentials, because the agent does not keep them.
func WriteBundle(out io.Writer, cfg Config) error {
	files := cfg.bundle()
	var readme strings.Builder
	readme.WriteString("What a WinNPM agent knows, for whoever has to find out what it did.\n" +
		"Names, labels, addresses and policies of the cluster are in here: handle it as such.\n" +
		"There are no Secrets, annotations, environments or credentials in here.\n\n")
	for _, f := range files {
		fmt.Fprintf(&readme, "%-20s %s\n", f.name, f.what)
	}
	z, now := zip.NewWriter(out), time.Now()
	for _, f := range append([]bundleFile{{name: "README.txt", write: text(readme.String())}}, files...) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: now})
		if err != nil {
			return err
		}
		if err := f.write(w); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return z.Close()
}

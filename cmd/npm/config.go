package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/policy"
)

// configEnv names the configuration file.
const configEnv = "NPM_CONFIG"

// maxConfigBytes is far above any configuration: a larger file is something else.
const maxConfigBytes = 1 << 20

// defaultConfigPath is where the predecessor has the file.
func defaultConfigPath(goos string) string {
	if goos == "windows" {
		return `c:\k\azure-npm\azure-npm.json`
	}
	return "/etc/azure/azure-vnet/azure-npm.json"
}

// config is what the configuration file says.
type config struct {
	Address        string
	Port           int
	DebugAddress   string // of the HTTPS endpoint
	DebugPort      int
	DebugCertFile  string // both or neither
	DebugKeyFile   string
	Network        string
	ApplyInterval  time.Duration
	MaxBatchedACLs int
	LogLevel       string
	Metrics        bool // /node-metrics and /cluster-metrics
	DebugAPI       bool // the dump
	Pprof          bool
	ExposeDebug    bool // the pages answer other machines too, on DebugPort
	CheckVersions  bool // writes to endpoints are conditional on what was read
	Budgets        policy.Budgets
}

// defaultConfig returns the predecessor's defaults, but for profiles: whoever works
// on the node could take them, and they cost more than any other page.
func defaultConfig() config {
	return config{
		Address: "0.0.0.0", Port: 10091,
		DebugAddress: "0.0.0.0", DebugPort: 10093, // 10092 is the predecessor's
		Network:        networkAzure,
		ApplyInterval:  500 * time.Millisecond,
		MaxBatchedACLs: 30,
		LogLevel:       "info",
		Metrics:        true, DebugAPI: true, CheckVersions: true,
		Budgets: policy.DefaultBudgets(),
	}
}

// address is that of the HTTP endpoint.
func (c config) address() string { return net.JoinHostPort(c.Address, strconv.Itoa(c.Port)) }

// debugAddress is that of the HTTPS endpoint.
func (c config) debugAddress() string {
	return net.JoinHostPort(c.DebugAddress, strconv.Itoa(c.DebugPort))
}

// check refuses values that contradict each other.
func (c config) check() error {
	switch {
	case c.DebugCertFile != "" && c.DebugKeyFile == "":
		return errors.New("DebugTLSCertFile: needs DebugTLSKeyFile beside it")
	case c.DebugKeyFile != "" && c.DebugCertFile == "":
		return errors.New("DebugTLSKeyFile: needs DebugTLSCertFile beside it")
	case c.ExposeDebug && c.DebugPort == c.Port:
		return fmt.Errorf("DebugListeningPort: %d is ListeningPort; with Toggles.ExposeDebugAPI they must differ", c.Port)
	}
	return nil
}

// notice is a line for the log, kept until there is a log: the configuration comes first.
type notice struct {
	warn          bool
	msg           string
	keysAndValues []any
}

func (n notice) log(logger klog.Logger) {
	if n.warn {
		warn(logger, n.msg, n.keysAndValues...)
		return
	}
	logger.Info(n.msg, n.keysAndValues...)
}

// loadConfig reads the file that path names, "" the one at the usual place,
// which need not be there. An error is one line that names the file.
func loadConfig(path string) (config, []notice, error) {
	named := path != ""
	if !named {
		path = defaultConfigPath(runtime.GOOS)
	}
	data, err := readLimited(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return defaultConfig(), []notice{{msg: "no configuration file, every key has its default", keysAndValues: []any{"file", path}}}, nil
	case errors.Is(err, fs.ErrNotExist):
		return config{}, nil, fmt.Errorf("%s: no such file; correct %s, or unset it for defaults", path, configEnv)
	case err != nil:
		return config{}, nil, fmt.Errorf("configuration: %w", err)
	}
	cfg, notices, err := parseConfig(data)
	if err != nil {
		return config{}, nil, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, append([]notice{{msg: "Using config file: " + path}}, notices...), nil
}

func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxConfigBytes {
		return nil, fmt.Errorf("%s: is larger than %d bytes, which no configuration is", path, maxConfigBytes)
	}
	return data, nil
}

// parseConfig reads the text of a configuration. A key that is absent keeps its default.
// The line ends and the byte order mark of Windows editors are accepted.
func parseConfig(data []byte) (config, []notice, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return config{}, nil, errors.New("is UTF-16; save it as UTF-8")
	}
	entries, err := flatten(data)
	if err != nil {
		return config{}, nil, err
	}
	cfg := defaultConfig()
	var notices []notice
	for _, e := range entries {
		k, ok := findKey(e.path)
		if !ok {
			n := notice{warn: true, msg: "unknown configuration key, it changes nothing", keysAndValues: []any{"key", e.path}}
			if near := nearestKey(e.path); near != "" {
				n.keysAndValues = append(n.keysAndValues, "didYouMean", near)
			}
			notices = append(notices, n)
			continue
		}
		said, err := k.read(&cfg, e.value)
		if err != nil {
			return config{}, nil, fmt.Errorf("%s: %w", k.name, err)
		}
		if said != nil {
			said.keysAndValues = append([]any{"key", k.name, "value", string(e.value)}, said.keysAndValues...)
			notices = append(notices, *said)
		}
	}
	if err := cfg.check(); err != nil {
		return config{}, nil, err
	}
	return cfg, notices, nil
}

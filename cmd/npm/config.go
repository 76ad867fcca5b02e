package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/policy"
)

// The defaults of keys for which 0 and "" count as absent.
const (
	defaultApplyMillis = 500
	defaultLogLevel    = "info"
)

// configEnv names the configuration file.
const configEnv = "NPM_CONFIG"

// defaultConfigPath returns the path of the predecessor's file.
func defaultConfigPath(goos string) string {
	if goos == "windows" {
		return `c:\k\azure-npm\azure-npm.json`
	}
	return "/etc/azure/azure-vnet/azure-npm.json"
}

// config holds the values of the configuration file.
type config struct {
	Address        string // "" means every address
	Port           int
	ProbePort      int    // on 127.0.0.1, for the kubelet
	Network        string // name of the HNS network, in the letter case of HNS; "": the agent finds it
	ApplyMillis    int    // the longest time that a change of rules waits for HNS to rest
	MaxBatchedACLs int
	CNIPipe        string // the pipe for the CNI plugin; "" means none
	LogLevel       string
	Metrics        bool // /node-metrics and /cluster-metrics
	DebugAPI       bool // the dump
	Pprof          bool
	CheckVersions  bool // writes to endpoints are conditional on what was read
	Budgets        policy.Budgets
}

// defaultConfig returns the values of an empty file. They are the predecessor's, except that
// profiles are off: any process on the node could request them, and they cost more than any other
// page.
func defaultConfig() config {
	return config{
		Address:        "0.0.0.0",
		Port:           10091,
		ProbePort:      10094,
		ApplyMillis:    defaultApplyMillis,
		MaxBatchedACLs: 30,
		CNIPipe:        `\\.\pipe\winnpm-cni`,
		LogLevel:       defaultLogLevel,
		Metrics:        true,
		DebugAPI:       true,
		CheckVersions:  true,
		Budgets:        policy.DefaultBudgets(),
	}
}

// Bounds of numbers in the file. leastBudget is far below any use; it keeps a typing error
// from closing a cluster.
const (
	maxPort     = 65535
	leastBudget = 16
)

// keys returns every key that the file may have, in the order of deploy/base/configmap.yaml. Reading a key changes the
// field of c that it points to. A key that points to nothing is one of the predecessor, for its batches, its
// background work or Linux: it has no effect, and a notice when it does not have its usual value.
func (c *config) keys() []key {
	b := &c.Budgets
	return []key{
		{name: "WindowsNetworkName", to: &c.Network},
		{name: "ListeningAddress", to: &c.Address},
		{name: "ListeningPort", to: &c.Port, least: 1, most: maxPort},
		{name: "ProbeListeningPort", to: &c.ProbePort, least: 1, most: maxPort},
		{name: "LogLevel", to: &c.LogLevel},
		{name: "ApplyIntervalInMilliseconds", to: &c.ApplyMillis, most: 3600000},
		{name: "MaxBatchedACLsPerPod", to: &c.MaxBatchedACLs, least: 1, most: 100000},
		{name: "CNIPipe", to: &c.CNIPipe},
		{name: "MaxBytesPerNetPol", to: &b.ObjectBytes, least: leastBudget, most: math.MaxInt32},
		{name: "MaxBytesPerNamespace", to: &b.NamespaceBytes, least: leastBudget, most: math.MaxInt32},
		{name: "MaxACLsPerPod", to: &b.ACLs, least: leastBudget, most: math.MaxInt32},
		{name: "ResyncPeriodInMinutes", usual: "15"},
		{name: "ApplyMaxBatches", usual: "100"},
		{name: "MaxPendingNetPols", usual: "100"},
		{name: "NetPolInvervalInMilliseconds", usual: "500"}, // the predecessor's spelling
		{name: "Transport.Address", usual: `"0.0.0.0"`},
		{name: "Transport.Port", usual: "10092"},
		{name: "Transport.ServicePort", usual: "9002"},

		{name: "Toggles.EnablePrometheusMetrics", to: &c.Metrics},
		{name: "Toggles.EnablePprof", to: &c.Pprof},
		{name: "Toggles.EnableHTTPDebugAPI", to: &c.DebugAPI},
		{name: "Toggles.CheckEndpointVersions", to: &c.CheckVersions},
		{name: "Toggles.EnableV2NPM", usual: "true"},
		{name: "Toggles.PlaceAzureChainFirst", usual: "false"},
		{name: "Toggles.ApplyIPSetsOnNeed", usual: "false"},
		{name: "Toggles.ApplyInBackground", usual: "true"},
		{name: "Toggles.NetPolInBackground", usual: "true"},
		{name: "Toggles.EnableNPMLite", usual: "false"},
	}
}

// networkCalico is the network whose pods get Calico's base rules.
const networkCalico = "Calico"

// address returns the address of the HTTP endpoint.
func (c config) address() string { return net.JoinHostPort(c.Address, strconv.Itoa(c.Port)) }

// probeAddress returns the address where the kubelet's probes are answered. Pods cannot reach
// it, as they have their own loopback interface.
func (c config) probeAddress() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.ProbePort))
}

// check replaces 0 and empty values by their defaults, and returns an error for an invalid level
// and for values that contradict each other.
func (c *config) check() error {
	c.ApplyMillis = cmp.Or(c.ApplyMillis, defaultApplyMillis)
	c.LogLevel = cmp.Or(strings.ToLower(c.LogLevel), defaultLogLevel)
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		return fmt.Errorf("LogLevel: expected debug, info, warn or error, found %q", c.LogLevel)
	}
	if c.ProbePort == c.Port {
		return fmt.Errorf("ProbeListeningPort: %d is also the value of ListeningPort; they must differ", c.Port)
	}
	return nil
}

// notice is a log line about the configuration, which is read before the logger exists.
type notice struct {
	warn          bool
	msg           string
	keysAndValues []any
}

func (n notice) log(logger klog.Logger) {
	if n.warn {
		cli.Warn(logger, n.msg, n.keysAndValues...)
		return
	}
	logger.Info(n.msg, n.keysAndValues...)
}

// loadConfig reads the configuration file at path. With "" it reads the file at the default
// path, which may be missing. An error is one line that names the file.
func loadConfig(path string) (config, []notice, error) {
	named := path != ""
	if !named {
		path = defaultConfigPath(runtime.GOOS)
	}
	data, err := os.ReadFile(path)
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

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"reflect"
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

// config is what the configuration file says. Of each key a field's tags say all:
//
//	key          its name, with the object that it is in
//	default      the value when it is absent: the predecessor's, but for profiles:
//	             whoever works on the node could take them, and they cost more than
//	             any other page
//	least, most  the bounds of a number; of a struct, those of its fields
//	unset        a value that counts as absent
//	oneof        the texts that there are, in small letters; any case is read
//	known        texts that mean something exactly so, not in another case
type config struct {
	Address       string `key:"ListeningAddress" default:"0.0.0.0"` // "" is every address
	Port          int    `key:"ListeningPort" default:"10091" least:"1" most:"65535"`
	DebugAddress  string `key:"DebugListeningAddress" default:"0.0.0.0"`                   // of the HTTPS endpoint
	DebugPort     int    `key:"DebugListeningPort" default:"10093" least:"1" most:"65535"` // 10092 is the predecessor's
	ProbePort     int    `key:"ProbeListeningPort" default:"10094" least:"1" most:"65535"` // on 127.0.0.1, for the kubelet
	DebugCertFile string `key:"DebugTLSCertFile"`                                          // both or neither
	DebugKeyFile  string `key:"DebugTLSKeyFile"`
	// Network is that of HNS, which compares names exactly; "": it is found.
	Network        string        `key:"WindowsNetworkName" known:"azure Calico"`
	ApplyInterval  time.Duration `key:"ApplyIntervalInMilliseconds" default:"500" least:"0" most:"3600000" unset:"0"`
	MaxBatchedACLs int           `key:"MaxBatchedACLsPerPod" default:"30" least:"1" most:"100000"`
	CNIPipe        string        `key:"CNIPipe" default:"\\\\.\\pipe\\winnpm-cni"` // where the CNI plugin asks; "" is nowhere
	LogLevel       string        `key:"LogLevel" default:"info" unset:"" oneof:"debug info warn error"`
	Metrics        bool          `key:"Toggles.EnablePrometheusMetrics" default:"true"` // /node-metrics and /cluster-metrics
	DebugAPI       bool          `key:"Toggles.EnableHTTPDebugAPI" default:"true"`      // the dump
	Pprof          bool          `key:"Toggles.EnablePprof" default:"false"`
	ExposeDebug    bool          `key:"Toggles.ExposeDebugAPI" default:"false"`       // the pages answer other machines too, on DebugPort
	CheckVersions  bool          `key:"Toggles.CheckEndpointVersions" default:"true"` // writes to endpoints are conditional on what was read
	// Budgets have keys of their own. The least value is far below any use. It keeps a
	// typing error from closing a cluster.
	Budgets policy.Budgets `least:"16" most:"2147483647"`
}

// idle are the keys of the predecessor that have no effect here: those of its batches and
// background work, and those for Linux. Each gives a notice when its value is not the
// default.
type idle struct {
	ApplyMaxBatches      int    `key:"ApplyMaxBatches" default:"100" unset:"0"`
	ResyncPeriod         int    `key:"ResyncPeriodInMinutes" default:"15"`
	MaxPendingNetPols    int    `key:"MaxPendingNetPols" default:"100"`
	NetPolInterval       int    `key:"NetPolInvervalInMilliseconds" default:"500"` // the predecessor's spelling
	TransportAddress     string `key:"Transport.Address" default:"0.0.0.0" unset:""`
	TransportPort        int    `key:"Transport.Port" default:"10092"`
	TransportServicePort int    `key:"Transport.ServicePort" default:"9002"`
	V2                   bool   `key:"Toggles.EnableV2NPM" default:"true"`
	AzureChainFirst      bool   `key:"Toggles.PlaceAzureChainFirst" default:"false"`
	IPSetsOnNeed         bool   `key:"Toggles.ApplyIPSetsOnNeed" default:"false"`
	ApplyInBackground    bool   `key:"Toggles.ApplyInBackground" default:"true"`
	NetPolInBackground   bool   `key:"Toggles.NetPolInBackground" default:"true"`
	Lite                 bool   `key:"Toggles.EnableNPMLite" default:"false"`
}

// networkCalico is a network whose pods get Calico's base rules.
const networkCalico = "Calico"

// defaultConfig is what a file without any key says.
func defaultConfig() config { return defaults().config }

// address is that of the HTTP endpoint.
func (c config) address() string { return net.JoinHostPort(c.Address, strconv.Itoa(c.Port)) }

// probeAddress is that of the kubelet's probes. Pods have another loopback.
func (c config) probeAddress() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.ProbePort))
}

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
	case c.ProbePort == c.Port:
		return fmt.Errorf("ProbeListeningPort: %d is ListeningPort; they must differ", c.Port)
	case c.ExposeDebug && c.ProbePort == c.DebugPort:
		return fmt.Errorf("ProbeListeningPort: %d is DebugListeningPort; with Toggles.ExposeDebugAPI they must differ", c.ProbePort)
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
	var all, usual = defaults(), defaults()
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
		meant, err := k.read(reflect.ValueOf(&all).Elem().FieldByIndex(k.field), e.value)
		if err != nil {
			return config{}, nil, fmt.Errorf("%s: %w", k.name, err)
		}
		at := []any{"key", k.name, "value", string(e.value)}
		switch {
		case meant != "":
			notices = append(notices, notice{warn: true, msg: "names of HNS networks are case sensitive", keysAndValues: append(at, "didYouMean", meant)})
		case all.idle != usual.idle:
			all.idle = usual.idle
			notices = append(notices, notice{msg: "this configuration key has no counterpart here, it changes nothing", keysAndValues: at})
		}
	}
	if err := all.check(); err != nil {
		return config{}, nil, err
	}
	return all.config, notices, nil
}

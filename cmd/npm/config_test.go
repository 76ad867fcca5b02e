package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/policy"
)

// changed returns the defaults with changes.
func changed(change func(*config)) config {
	c := defaultConfig()
	if change != nil {
		change(&c)
	}
	return c
}

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       func(*config)
	}{
		{"nothing", `{}`, nil},
		{"an editor of Windows", "\xef\xbb\xbf{\r\n  \"ListeningPort\": 1\r\n}\r\n", func(c *config) { c.Port = 1 }},
		{"all", `{"ListeningPort": 9, "ListeningAddress": "::1", "WindowsNetworkName": "Calico", "ApplyIntervalInMilliseconds": 250,
			"MaxBatchedACLsPerPod": 7, "LogLevel": "debug", "Toggles": {"EnablePrometheusMetrics": false, "EnablePprof": true,
			"EnableHTTPDebugAPI": false, "CheckEndpointVersions": false},
			"MaxBytesPerNetPol": 21, "MaxBytesPerNamespace": 23, "MaxACLsPerPod": 24, "CNIPipe": "",
			"ProbeListeningPort": 11}`, func(c *config) {
			*c = config{Address: "::1", Port: 9, ProbePort: 11, Network: "Calico", ApplyMillis: 250, MaxBatchedACLs: 7, LogLevel: "debug", Pprof: true}
			c.Budgets = policy.Budgets{ObjectBytes: 21, NamespaceBytes: 23, ACLs: 24}
		}},
		{"any case", `{"listeningport": 9, "TOGGLES": {"enablepprof": true}}`, func(c *config) { c.Port, c.Pprof = 9, true }},
		{"zero is the default", `{"ApplyIntervalInMilliseconds": 0, "WindowsNetworkName": "", "LogLevel": ""}`, nil},
		{"null is absent", `{"ListeningPort": null, "Toggles": null, "WindowsNetworkName": null}`, nil},
		{"every address", `{"ListeningAddress": ""}`, func(c *config) { c.Address = "" }},
		{"a level in another case", `{"LogLevel": "WARN"}`, func(c *config) { c.LogLevel = "warn" }},
		{"the predecessor's, with its typo", `{"ResyncPeriodInMinutes": 15, "ListeningPort": 10091, "ListeningAddress": "0.0.0.0", "NetPolInvervalInMilliseconds": 500,
			"ApplyMaxBatches": 100, "ApplyIntervalInMilliseconds": 500, "MaxBatchedACLsPerPod": 30, "MaxPendingNetPols": 100,
			"Toggles": {"EnablePrometheusMetrics": true, "EnablePprof": true, "EnableHTTPDebugAPI": true, "EnableV2NPM": true, "PlaceAzureChainFirst": false,
			"ApplyIPSetsOnNeed": false, "ApplyInBackground": true, "NetPolInBackground": true, "EnableNPMLite": false},
			"Transport": {"Address": "0.0.0.0", "Port": 10092, "ServicePort": 9002}}`, func(c *config) { c.Pprof = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, notices, err := parseConfig([]byte(tc.text))
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(changed(tc.want), got))
			require.Empty(t, notices)
		})
	}
}

func TestConfigNotices(t *testing.T) {
	const idle, unknown = "info: this configuration key has no counterpart here, it changes nothing", "warn: unknown configuration key, it changes nothing"
	for text, want := range map[string]string{
		`{"ResyncPeriodInMinutes": 5}`:            idle + " [key ResyncPeriodInMinutes value 5]",
		`{"Toggles": {"EnableNPMLite": true}}`:    idle + " [key Toggles.EnableNPMLite value true]",
		`{"Toggles": {"enablev2npm": false}}`:     idle + " [key Toggles.EnableV2NPM value false]",
		`{"Transport": {"Address": "10.0.0.1"}}`:  idle + ` [key Transport.Address value "10.0.0.1"]`,
		`{"ListenPort": 5}`:                       unknown + " [key ListenPort]",
		`{"NetPolIntervalInMilliseconds": 5}`:     unknown + " [key NetPolIntervalInMilliseconds]",
		`{"EnablePprof": true}`:                   unknown + " [key EnablePprof]",
		`{"Toggles": {"EnablePprofs": true}}`:     unknown + " [key Toggles.EnablePprofs]",
		`{"Banana": {"ListeningPort": "x"}}`:      unknown + " [key Banana]",
		`{"": 1}`:                                 unknown + " [key ]",
		`{"ListeningPort\u0000": 5, "x": [1, 2]}`: unknown + " [key ListeningPort\x00]; " + unknown + " [key x]",
	} {
		_, notices, err := parseConfig([]byte(text))
		require.NoError(t, err, text)
		var got []string
		for _, n := range notices {
			got = append(got, fmt.Sprintf("%s: %s %v", map[bool]string{true: "warn", false: "info"}[n.warn], n.msg, n.keysAndValues))
		}
		require.Equal(t, want, strings.Join(got, "; "), text)
	}
}

func TestConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{\n\"a\": 1,\n}":                      "line 3: is not JSON: invalid character '}' looking for beginning of object key string",
		"{} {}":                                "line 1: is not JSON: invalid character '{' after top-level value",
		"[]":                                   "is no JSON object: json: cannot unmarshal array into Go value of type map[string]json.RawMessage",
		`{"ListeningPort": 70000}`:             "ListeningPort: expected a whole number from 1 to 65535, found 70000",
		`{"ListeningPort": 10094}`:             "ProbeListeningPort: 10094 is also the value of ListeningPort; they must differ",
		`{"ListeningPort": 0}`:                 "ListeningPort: expected a whole number from 1 to 65535, found 0",
		`{"ListeningPort": "10091"}`:           `ListeningPort: expected a whole number from 1 to 65535, found "10091"`,
		`{"ListeningPort": 1.5}`:               "ListeningPort: expected a whole number from 1 to 65535, found 1.5",
		`{"ListeningPort": 1e999}`:             "ListeningPort: expected a whole number from 1 to 65535, found 1e999",
		`{"listeningport": true}`:              "ListeningPort: expected a whole number from 1 to 65535, found true",
		`{"ListeningAddress": 5}`:              "ListeningAddress: expected a text in quotes, found 5",
		`{"WindowsNetworkName": {}}`:           "WindowsNetworkName: expected a text in quotes, found {}",
		`{"ApplyIntervalInMilliseconds": -1}`:  "ApplyIntervalInMilliseconds: expected a whole number from 0 to 3600000, found -1",
		`{"MaxBytesPerNetPol": 15}`:            "MaxBytesPerNetPol: expected a whole number from 16 to 2147483647, found 15",
		`{"MaxBatchedACLsPerPod": 0}`:          "MaxBatchedACLsPerPod: expected a whole number from 1 to 100000, found 0",
		`{"MaxBatchedACLsPerPod": -3}`:         "MaxBatchedACLsPerPod: expected a whole number from 1 to 100000, found -3",
		`{"LogLevel": "loud"}`:                 `LogLevel: expected debug, info, warn or error, found "loud"`,
		`{"LogLevel": 3}`:                      "LogLevel: expected a text in quotes, found 3",
		`{"Toggles": {"EnablePprof": "true"}}`: `Toggles.EnablePprof: expected true or false, found "true"`,
		`{"Toggles": true}`:                    "Toggles: expected an object",
	} {
		_, _, err := parseConfig([]byte(text))
		require.EqualError(t, err, want, text)
	}
}

func TestLoadConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "azure-npm.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"ListeningPort": 9}`), 0o600))
	cfg, notices, err := loadConfig(file)
	require.NoError(t, err)
	require.Equal(t, "0.0.0.0:9", cfg.address())
	require.Equal(t, []notice{{msg: "Using config file: " + file}}, notices)

	_, _, err = loadConfig(dir)
	require.ErrorContains(t, err, "configuration: read "+dir+": ")

	require.Equal(t, `c:\k\azure-npm\azure-npm.json`, defaultConfigPath("windows"))
	require.Equal(t, "/etc/azure/azure-vnet/azure-npm.json", defaultConfigPath("linux"))
}

// A file at the usual place need not be there. (The test can say so only where
// there is none.)
func TestLoadConfigDefault(t *testing.T) {
	path := defaultConfigPath("linux")
	if _, err := os.Stat(path); err == nil {
		t.Skip(path + " is there")
	}
	cfg, notices, err := loadConfig("")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(defaultConfig(), cfg))
	require.Equal(t, []notice{{msg: "no configuration file, every key has its default", keysAndValues: []any{"file", path}}}, notices)
}

// written is a file that says all that a configuration says.
func written(t *testing.T, c config) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"ListeningAddress": c.Address, "ListeningPort": c.Port,
		"ProbeListeningPort": c.ProbePort,
		"WindowsNetworkName": c.Network, "ApplyIntervalInMilliseconds": c.ApplyMillis,
		"MaxBatchedACLsPerPod": c.MaxBatchedACLs, "LogLevel": c.LogLevel, "CNIPipe": c.CNIPipe,
		"MaxBytesPerNetPol": c.Budgets.ObjectBytes, "MaxBytesPerNamespace": c.Budgets.NamespaceBytes, "MaxACLsPerPod": c.Budgets.ACLs,
		"Toggles": map[string]bool{
			"EnablePrometheusMetrics": c.Metrics, "EnableHTTPDebugAPI": c.DebugAPI, "EnablePprof": c.Pprof,
			"CheckEndpointVersions": c.CheckVersions,
		},
	})
	require.NoError(t, err)
	return data
}

// Whatever the file holds: no panic, an error of one line, or values in range
// that are read the same way when they are written.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{`{}`, `{"ListeningPort": 1e4}`, `{"Toggles": {"EnablePprof": false}, "x": null}`, "\xef\xbb\xbf{\r\n}", `{"a": {"b": [1]}}`, `{"LogLevel": "WARN"}`, `[`, `{"":{}}`,
		`{"ListeningAddress": "::", "ProbeListeningPort": 1}`, `{"Toggles": {"EnablePprof": true}, "WindowsNetworkName": "\ud800\n"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, _, err := parseConfig(data)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.True(t, cfg.Port >= 1 && cfg.Port <= 65535, cfg.Port)
		require.Positive(t, cfg.MaxBatchedACLs)
		require.Positive(t, cfg.ApplyMillis)
		require.Contains(t, []string{"debug", "info", "warn", "error"}, cfg.LogLevel)
		again, _, err := parseConfig(written(t, cfg))
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(cfg, again))
	})
}

// deployed returns the configuration of deploy/ as indented JSON: every key in the order of the table with its default,
// but for those that few clusters change.
func deployed(network string) string {
	c := changed(func(c *config) { c.Network = network })
	var keys, toggles []string
	for _, k := range c.keys() {
		if k.name == "CNIPipe" || strings.HasPrefix(k.name, "MaxBytes") || k.name == "MaxACLsPerPod" || strings.HasPrefix(k.name, "Transport.") {
			continue
		}
		value := k.usual
		if k.to != nil {
			data, _ := json.Marshal(k.to) // of a text, a number or a bool
			value = string(data)
		}
		if name, toggle := strings.CutPrefix(k.name, "Toggles."); toggle {
			toggles = append(toggles, fmt.Sprintf("\n        %q: %s", name, value))
		} else {
			keys = append(keys, fmt.Sprintf("\n    %q: %s", k.name, value))
		}
	}
	return "{" + strings.Join(keys, ",") + ",\n    \"Toggles\": {" + strings.Join(toggles, ",") + "\n    }\n}\n"
}

// What we install is what we understand: the files in deploy have the keys and defaults of this program.
func TestConfigOfDeploy(t *testing.T) {
	for _, tc := range []struct{ file, network string }{{"base/configmap.yaml", "azure"}, {"calico/configmap.yaml", "Calico"}, {"helm/azure-npm.json", "azure"}} {
		file := filepath.Join("../../deploy", tc.file)
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		want := deployed(tc.network)
		if head, _, yaml := strings.Cut(string(data), "  azure-npm.json: |\n"); yaml {
			want = head + "  azure-npm.json: |\n" + regexp.MustCompile(`(?m)^`).ReplaceAllString(strings.TrimSuffix(want, "\n"), "    ") + "\n"
		}
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
			data = []byte(want)
		}
		require.Equal(t, want, string(data), "make update")
		configMap := struct{ Data map[string]string }{map[string]string{"azure-npm.json": string(data)}}
		if filepath.Ext(file) == ".yaml" {
			require.NoError(t, yaml.Unmarshal(data, &configMap))
		}
		cfg, notices, err := parseConfig([]byte(configMap.Data["azure-npm.json"]))
		require.NoError(t, err)
		require.Empty(t, notices)
		require.Empty(t, cmp.Diff(changed(func(c *config) { c.Network = tc.network }), cfg))
	}
}

// TestConfigKeys checks that docs/operations.md names each key with its default.
func TestConfigKeys(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Configuration\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows, rest, _ := strings.Cut(section, "\n\nThe agent accepts these keys of Azure NPM and ignores them.")
	documented := map[string]string{} // default, by key
	for _, row := range strings.Split(rows, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		names, values := strings.Split(cells[1], ","), strings.Split(cells[2], ",")
		for i, name := range names {
			documented[strings.Trim(name, " `")] = strings.Trim(values[min(i, len(values)-1)], " `")
		}
	}
	usual := defaultConfig()
	for _, k := range usual.keys() {
		if _, last, _ := strings.Cut(k.name, "."); k.to == nil {
			require.True(t, strings.Contains(rest, "`"+k.name+"`") || strings.Contains(rest, "`."+last+"`") || strings.HasPrefix(k.name, "Transport."), k.name)
			continue
		}
		if k.least != 0 || k.most != 0 {
			require.Less(t, k.least, k.most, k.name)
		}
		value := fmt.Sprint(reflect.ValueOf(k.to).Elem())
		if value == "" {
			value = "none"
		}
		want, ok := documented[k.name]
		require.True(t, ok, k.name)
		require.Equal(t, want, value, k.name)
		delete(documented, k.name)
	}
	require.Empty(t, documented)
}

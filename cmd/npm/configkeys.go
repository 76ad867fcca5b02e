package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The networks whose names the predecessor knows. HNS compares names exactly.
const (
	networkAzure  = "azure"
	networkCalico = "Calico"
)

// key is one key of the configuration file, with the objects that it is in.
type key struct {
	name string
	// read takes over a value that is not null; it may have something to say.
	read func(c *config, value json.RawMessage) (*notice, error)
}

// Some keys of the predecessor have no effect here: those of its batches and background
// work, and those for Linux. Each gives a notice when its value is not the default.
var keys = []key{
	{"ListeningAddress", words(func(c *config) *string { return &c.Address })}, // "" is every address
	{"ListeningPort", port(func(c *config) *int { return &c.Port })},
	{"DebugListeningAddress", words(func(c *config) *string { return &c.DebugAddress })},
	{"DebugListeningPort", port(func(c *config) *int { return &c.DebugPort })},
	{"DebugTLSCertFile", words(func(c *config) *string { return &c.DebugCertFile })},
	{"DebugTLSKeyFile", words(func(c *config) *string { return &c.DebugKeyFile })},
	{"WindowsNetworkName", readNetwork},
	{"ApplyIntervalInMilliseconds", func(c *config, v json.RawMessage) (*notice, error) {
		ms, err := whole(v, 0, int(time.Hour/time.Millisecond))
		if ms > 0 { // 0 is the default
			c.ApplyInterval = time.Duration(ms) * time.Millisecond
		}
		return nil, err
	}},
	{"MaxBatchedACLsPerPod", func(c *config, v json.RawMessage) (_ *notice, err error) {
		c.MaxBatchedACLs, err = whole(v, 1, 100_000)
		return nil, err
	}},
	{"MaxLabelsPerObject", budget(func(c *config) *int { return &c.Budgets.Labels })},
	{"MaxLabelBytesPerObject", budget(func(c *config) *int { return &c.Budgets.LabelBytes })},
	{"MaxNamedPortsPerPod", budget(func(c *config) *int { return &c.Budgets.Ports })},
	{"MaxItemsPerNetPol", budget(func(c *config) *int { return &c.Budgets.Items })},
	{"MaxBytesPerNetPol", budget(func(c *config) *int { return &c.Budgets.Bytes })},
	{"MaxNetPolItemsPerNamespace", budget(func(c *config) *int { return &c.Budgets.NamespaceItems })},
	{"MaxNetPolBytesPerNamespace", budget(func(c *config) *int { return &c.Budgets.NamespaceBytes })},
	{"MaxACLsPerPod", budget(func(c *config) *int { return &c.Budgets.ACLs })},
	{"MaxACLBytesPerPod", budget(func(c *config) *int { return &c.Budgets.ACLBytes })},
	{"MaxMembersPerNamespace", budget(func(c *config) *int { return &c.Budgets.NamespaceMembers })},
	{"LogLevel", readLevel},
	{"Toggles.EnablePrometheusMetrics", toggle(func(c *config) *bool { return &c.Metrics })},
	{"Toggles.EnablePprof", toggle(func(c *config) *bool { return &c.Pprof })},
	{"Toggles.EnableHTTPDebugAPI", toggle(func(c *config) *bool { return &c.DebugAPI })},
	{"Toggles.ExposeDebugAPI", toggle(func(c *config) *bool { return &c.ExposeDebug })},
	{"Toggles.CheckEndpointVersions", toggle(func(c *config) *bool { return &c.CheckVersions })},

	{"ApplyMaxBatches", idleNumber(100, 0)}, // 0 is the default
	{"ResyncPeriodInMinutes", idleNumber(15)},
	{"MaxPendingNetPols", idleNumber(100)},
	{"NetPolInvervalInMilliseconds", idleNumber(500)}, // the predecessor's spelling
	{"Transport.Address", idleText("0.0.0.0")},
	{"Transport.Port", idleNumber(10092)},
	{"Transport.ServicePort", idleNumber(9002)},
	{"Toggles.EnableV2NPM", idleToggle(true)},
	{"Toggles.PlaceAzureChainFirst", idleToggle(false)},
	{"Toggles.ApplyIPSetsOnNeed", idleToggle(false)},
	{"Toggles.ApplyInBackground", idleToggle(true)},
	{"Toggles.NetPolInBackground", idleToggle(true)},
	{"Toggles.EnableNPMLite", idleToggle(false)},
}

func readNetwork(c *config, v json.RawMessage) (*notice, error) {
	name, err := text(v)
	if err != nil || name == "" {
		return nil, err
	}
	c.Network = name
	for _, known := range []string{networkAzure, networkCalico} {
		if name != known && strings.EqualFold(name, known) {
			return &notice{warn: true, msg: "names of HNS networks are case sensitive", keysAndValues: []any{"didYouMean", known}}, nil
		}
	}
	return nil, nil
}

func readLevel(c *config, v json.RawMessage) (*notice, error) {
	s, err := text(v)
	if err != nil || s == "" {
		return nil, err
	}
	c.LogLevel = strings.ToLower(s)
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		return nil, fmt.Errorf("expected debug, info, warn or error, found %s", shown(v))
	}
	return nil, nil
}

func words(at func(*config) *string) func(*config, json.RawMessage) (*notice, error) {
	return func(c *config, v json.RawMessage) (_ *notice, err error) {
		*at(c), err = text(v)
		return nil, err
	}
}

func port(at func(*config) *int) func(*config, json.RawMessage) (*notice, error) {
	return func(c *config, v json.RawMessage) (_ *notice, err error) {
		*at(c), err = whole(v, 1, math.MaxUint16)
		return nil, err
	}
}

// budget reads a bound of pkg/policy. The least value is far below any use. It keeps a
// typing error from closing a cluster.
func budget(at func(*config) *int) func(*config, json.RawMessage) (*notice, error) {
	return func(c *config, v json.RawMessage) (_ *notice, err error) {
		*at(c), err = whole(v, 16, math.MaxInt32)
		return nil, err
	}
}

func toggle(at func(*config) *bool) func(*config, json.RawMessage) (*notice, error) {
	return func(c *config, v json.RawMessage) (_ *notice, err error) {
		*at(c), err = boolean(v)
		return nil, err
	}
}

func idleNumber(defaults ...int) func(*config, json.RawMessage) (*notice, error) {
	return func(_ *config, v json.RawMessage) (*notice, error) {
		n, err := whole(v, 0, math.MaxInt32)
		return idle(slices.Contains(defaults, n)), err
	}
}

func idleText(def string) func(*config, json.RawMessage) (*notice, error) {
	return func(_ *config, v json.RawMessage) (*notice, error) {
		s, err := text(v)
		return idle(s == def || s == ""), err
	}
}

func idleToggle(def bool) func(*config, json.RawMessage) (*notice, error) {
	return func(_ *config, v json.RawMessage) (*notice, error) {
		b, err := boolean(v)
		return idle(b == def), err
	}
}

func idle(isDefault bool) *notice {
	if isDefault {
		return nil
	}
	return &notice{msg: "this configuration key has no counterpart here, it changes nothing"}
}

func text(v json.RawMessage) (string, error) {
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "", fmt.Errorf("expected a text in quotes, found %s", shown(v))
	}
	return s, nil
}

func boolean(v json.RawMessage) (bool, error) {
	var b bool
	if err := json.Unmarshal(v, &b); err != nil {
		return false, fmt.Errorf("expected true or false, found %s", shown(v))
	}
	return b, nil
}

// whole reads a whole number, however it is written: 500, 5e2, 500.0.
func whole(v json.RawMessage, least, most int) (int, error) {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != math.Trunc(f) || f < float64(least) || f > float64(most) {
		return 0, fmt.Errorf("expected a whole number from %d to %d, found %s", least, most, shown(v))
	}
	return int(f), nil
}

// shown is a value for a message.
func shown(v json.RawMessage) string {
	const most = 40
	switch v[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	if runes := []rune(string(v)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(v)
}

// findKey finds a key in any case, as the predecessor did.
func findKey(path string) (key, bool) {
	for _, k := range keys {
		if strings.EqualFold(k.name, path) {
			return k, true
		}
	}
	return key{}, false
}

// nearestKey returns the known key whose last word is most like that of path,
// "" when none is.
func nearestKey(path string) string {
	last := func(s string) string { return strings.ToLower(s[strings.LastIndexByte(s, '.')+1:]) }
	word := last(path)
	nearest, least := "", 1+min(3, len(word)/3)
	for _, k := range keys {
		if d := edits(word, last(k.name)); d < least {
			nearest, least = k.name, d
		}
	}
	return nearest
}

// edits is the number of letters to insert, delete or change to get from a to b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

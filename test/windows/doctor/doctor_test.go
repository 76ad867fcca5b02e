//go:build !windows

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/cnis"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

var testAddr = netip.MustParseAddr("10.1.0.4")

func newServer(t *testing.T, o hnsd.Options) *hnsd.Server {
	t.Helper()
	if o.Foreign == nil {
		o.Foreign = hnssim.DefaultForeign()
	}
	s := hnsd.New(o)
	_, err := s.CreateEndpoint(testAddr)
	require.NoError(t, err)
	return s
}

// TestReport: the program writes a report in which nothing is refuted, and leaves nothing on the node.
func TestReport(t *testing.T) {
	s := newServer(t, hnsd.Options{})
	before := s.Exists()
	file := filepath.Join(t.TempDir(), "doctor.json")
	require.NoError(t, run(t.Context(), file, hnstest.Options{L2Bridge: true, Limits: effort.Deep()}, s.System()))
	require.Equal(t, before, s.Exists())
	require.Zero(t, s.OpenHandles())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r hnstest.Report
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, "L2Bridge", r.Network)
	for _, a := range r.Answers {
		require.Equal(t, hnstest.Held, a.Verdict, "%s: %s", a.Name, a.Why)
		require.NotEmpty(t, a.Source)
		require.NotEmpty(t, a.IfWrong)
	}
	require.True(t, bytes.Contains(text, []byte("SetPolicy/Add [{azure-npm-hnstest-web ")), "requests are in the report")
	require.ErrorIs(t, run(t.Context(), file, hnstest.Options{}, s.System()), os.ErrExist, "a file is not written over")
}

// TestReadOnly: with -read-only nothing is written, and the endpoints of the node are read.
func TestReadOnly(t *testing.T) {
	s := newServer(t, hnsd.Options{})
	r, err := hnstest.Examine(t.Context(), hnstest.Options{ReadOnly: true}, s.System())
	require.NoError(t, err)
	require.Len(t, r.Answers, 1)
	require.Equal(t, hnstest.Held, r.Answers[0].Verdict, r.Answers[0].Why)
	for export := range s.Counts() {
		require.NotRegexp(t, "Create|Modify|Delete", export)
	}
	require.Positive(t, s.Sim().Counts()[hns.OpEndpointGet])

	s.Sim().Inject(hnsfault.Fault{Op: hns.OpNetworkGet, Times: -1, Err: hns.ErrNotFound})
	r, err = hnstest.Examine(t.Context(), hnstest.Options{ReadOnly: true}, s.System())
	require.NoError(t, err)
	require.Equal(t, hnstest.NotAsked, r.Answers[0].Verdict, "a node without pods: %s", r.Answers[0].Why)
}

// TestDeviations: what an HNS does otherwise refutes its own assumptions, and no others.
func TestDeviations(t *testing.T) {
	refuse := func(code uint32, rejects func(c hnssim.Call) bool) hnsfault.Personality {
		return hnsfault.Personality{Refuse: func(c hnssim.Call) uint32 {
			if rejects(c) {
				return code
			}
			return 0
		}}
	}
	rules := func(rejects func(hns.ACL) bool) func(hnssim.Call) bool {
		return func(c hnssim.Call) bool { return slices.ContainsFunc(c.ACLs, rejects) }
	}
	for name, tc := range map[string]struct {
		like    hnsfault.Personality
		refuted []string
	}{
		"no SCTP":  {refuse(0x80070032, rules(func(a hns.ACL) bool { return a.Protocols == "132" })), []string{"A10"}},
		"no world": {refuse(0x803b002f, rules(func(a hns.ACL) bool { return a.RemoteAddresses == "0.0.0.0/0" })), []string{"A7"}},
		"no long names": {refuse(0x803b000d, func(c hnssim.Call) bool {
			return slices.ContainsFunc(c.Sets, func(s hns.SetPolicy) bool { return len(s.Name) > 1000 })
		}), []string{"S15"}},
		"other codes": {hnsfault.Personality{Code: func(op *hns.OpError) uint32 {
			if errors.Is(op, hns.ErrAlreadyExists) {
				return 0x80004005
			}
			return 0
		}}, []string{"S11", "S13"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := hnstest.Examine(t.Context(), hnstest.Options{}, newServer(t, hnsd.Options{Personality: tc.like}).System())
			require.NoError(t, err)
			var refutes []string
			for _, a := range r.Answers {
				if a.Verdict == hnstest.Refuted {
					refutes = append(refutes, a.Assumptions)
				}
			}
			require.ElementsMatch(t, tc.refuted, refutes)
			require.Empty(t, r.Left)
		})
	}
}

// TestNodes: nothing is refuted and all is asked, whatever a node may be like.
func TestNodes(t *testing.T) {
	t.Parallel()
	rule := hns.EndpointPolicy{Type: "ACL", Settings: []byte(`{"Action":"Block","Direction":"Out","Priority":199,"RemoteAddresses":"168.63.129.16/32"}`)}
	stuck := hns.EndpointPolicy{Type: "EncapOverhead", Settings: []byte(`{"Overhead":50}`)}
	nodes := map[string]hnsd.Options{
		"puts policies of its own on endpoints": {Foreign: append(hnssim.DefaultForeign(), hns.EndpointPolicy{Type: "PortName", Settings: []byte(`{"Name":"x"}`)})},
		"puts nothing on endpoints":             {Foreign: []hns.EndpointPolicy{}},
		"shows everything in another order":     {Personality: hnsfault.Personality{Show: hnsfault.Shuffle(7)}},
		"both":                                  {Personality: hnsfault.Personality{Show: hnsfault.Shuffle(8)}, Foreign: []hns.EndpointPolicy{rule}},
		"has a policy that stays": {Personality: hnsfault.Personality{Show: func(op string, out *hns.Result) {
			if op == hns.OpEndpointGet {
				out.Endpoint.Policies = slices.DeleteFunc(out.Endpoint.Policies, func(p hns.EndpointPolicy) bool { return p.Type == stuck.Type })
				out.Endpoint.Policies = slices.Insert(out.Endpoint.Policies, 0, stuck)
			}
		}}},
	}
	for _, c := range cnis.All() {
		nodes[c.Name] = hnsd.Options{Foreign: c.Endpoint}
	}
	for name, like := range nodes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range effort.Of(1, 5) {
				r, err := hnstest.Examine(t.Context(), hnstest.Options{}, newServer(t, like).System())
				require.NoError(t, err)
				for _, a := range r.Answers {
					require.Equal(t, hnstest.Held, a.Verdict, "%s: %s", a.Name, a.Why)
				}
			}
		})
	}
}

// TestNodesThatCannot: what a node does not make is not asked of it, and the report has each with
// what HNS said. Everything else is.
func TestNodesThatCannot(t *testing.T) {
	for question, tc := range map[string]struct{ refuses, why string }{
		"every address of an endpoint is read":      {`"IpAddress".*"IpAddress"`, "this HNS makes no endpoint with two addresses: "},
		"an endpoint of another node is told apart": {`"Flags":1`, "this HNS makes no endpoint of another node: "},
	} {
		t.Run(question, func(t *testing.T) {
			s := newServer(t, hnsd.Options{})
			cannot := s.System()
			cannot.HNS = func(export, id string, handle uint64, texts ...string) (hnstest.CallAnswer, error) {
				if export == "HcnCreateEndpoint" && regexp.MustCompile(tc.refuses).MatchString(texts[0]) {
					return hnstest.CallAnswer{Code: 0x803b0013}, nil
				}
				return s.Call(export, id, handle, texts...)
			}
			r, err := hnstest.Examine(t.Context(), hnstest.Options{}, cannot)
			require.NoError(t, err)
			for _, a := range r.Answers {
				if a.Name == question {
					require.Equal(t, hnstest.NotAsked, a.Verdict)
					require.Regexp(t, "^"+tc.why+".*0x803b0013", a.Why)
					continue
				}
				require.Equal(t, hnstest.Held, a.Verdict, "%s: %s", a.Name, a.Why)
			}
		})
	}
}

// TestKilled: wherever a run is killed, the next one takes away what it left before it makes
// anything, and nothing of other programs.
func TestKilled(t *testing.T) {
	for export, nth := range map[string]int{
		"HcnCreateNetwork": 1, "HcnCreateNamespace": 1, "HcnCreateEndpoint": 3, "HcnModifyNamespace": 2, "HcnDeleteEndpoint": 2,
	} {
		t.Run(export, func(t *testing.T) {
			s := newServer(t, hnsd.Options{})
			before := s.Exists()
			killed := s.System()
			calls := 0
			killed.HNS = func(name, id string, handle uint64, texts ...string) (hnstest.CallAnswer, error) {
				if name == export {
					calls++
				}
				if calls >= nth && calls > 0 {
					return hnstest.CallAnswer{}, errors.New("the program is dead")
				}
				return s.Call(name, id, handle, texts...)
			}
			_, _ = hnstest.Examine(t.Context(), hnstest.Options{}, killed)
			_, err := hnstest.Examine(t.Context(), hnstest.Options{}, s.System())
			require.NoError(t, err)
			require.Equal(t, before, s.Exists())
		})
	}
}

// TestStopped: a run that is stopped takes away what it made.
func TestStopped(t *testing.T) {
	s := newServer(t, hnsd.Options{})
	before := s.Exists()
	ctx, cancel := context.WithCancel(t.Context())
	stopping := s.System()
	calls := 0
	stopping.HNS = func(name, id string, handle uint64, texts ...string) (hnstest.CallAnswer, error) {
		if calls++; calls == 100 {
			cancel()
		}
		return s.Call(name, id, handle, texts...)
	}
	r, err := hnstest.Examine(ctx, hnstest.Options{}, stopping)
	require.NoError(t, err)
	require.Empty(t, r.Left)
	require.NotEmpty(t, r.Answers)
	require.Equal(t, before, s.Exists())
	require.False(t, slices.ContainsFunc(r.Answers, func(a *hnstest.Answer) bool { return a.Name == "writes read back as the version that was asked for" }))
}

// TestDocs: docs/windows.md lists the assumptions that questions ask about.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/windows.md")
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| doctor \|([^.]*)\.`).FindStringSubmatch(string(text))
	require.NotNil(t, row)
	var asked []string
	for _, q := range hnstest.Questions() {
		asked = append(asked, strings.Fields(q.Assumptions)...)
	}
	slices.Sort(asked)
	require.ElementsMatch(t, strings.Fields(strings.ReplaceAll(row[1], ",", "")), slices.Compact(asked))
}

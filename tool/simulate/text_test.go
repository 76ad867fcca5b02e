package simulate

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// Names come from manifests, which are checked, or from any API server, which are not:
// none steers the terminal or makes a line of its own.
func TestTextsOfOthers(t *testing.T) {
	const evil = "\x1b[31m\u009b2J\a\u202e\nFORGED\tcell\r\u2028"
	acl := hns.ACL{
		ID: "azure-acl-" + evil, Action: hns.ActionType(evil), Direction: hns.DirectionType(evil), Protocols: evil, LocalAddresses: evil,
		RemoteAddresses: evil, LocalPorts: evil, RemotePorts: evil, RuleType: hns.RuleType(evil), Priority: 222,
	}
	side := &Side{Decider: explain.Decider{Policy: evil}}
	verdict := Verdict{From: "from" + evil, To: "to" + evil, Protocol: policy.Protocol(evil), Ingress: side, Egress: side}
	r := Result{
		Sets:      []Set{{ID: evil, Name: evil, Type: hns.SetType(evil), Values: []string{evil}}, {ID: "n", Name: evil, Type: hns.NestedIPSet, Values: []string{evil}}},
		Endpoints: []Endpoint{{ID: evil, Pod: evil, IP: evil, ACLs: []hns.ACL{acl}}, {Pod: evil}},
		Traces:    []Verdict{verdict},
		Calls:     map[string]int{evil: 1},
		Warnings:  []state.Warning{{Object: evil, Kind: evil, Reason: state.Reason(evil), Message: evil}},
	}
	var out bytes.Buffer
	require.NoError(t, r.writeText(t.Context(), &out))
	matrix := grid{port: explain.Question{Port: 80, Protocol: policy.Protocol(evil)}, names: []string{"a" + evil, "b" + evil}, pods: 3, cells: [][]byte{[]byte(".+"), []byte(" .")}}
	matrix.write(&out)
	for _, c := range out.String() {
		require.True(t, c == '\n' || unicode.IsPrint(c), "%q in\n%q", c, out.String())
	}
	for l := range strings.Lines(out.String()) {
		require.False(t, strings.HasPrefix(strings.TrimSpace(l), "FORGED"), out.String())
	}
	require.Contains(t, out.String(), " 222 ", "numbers are numbers")
}

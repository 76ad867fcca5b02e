package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// guarded is a pod web that lets everybody in to some ports, and one that has no rules.
func guarded(ports string) state.Dump {
	in := func(action hns.ActionType, ports string, priority uint16) hns.ACL {
		a := hns.ACL{ID: "azure-acl-x.web", Action: action, Direction: hns.In, RuleType: hns.Switch, Priority: priority}
		if ports != "" {
			a.Protocols, a.LocalPorts = "6", ports
		}
		return a
	}
	open := []hns.ACL{{Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 65500}, {Action: hns.Allow, Direction: hns.Out, RuleType: hns.Switch, Priority: 65500}}
	rules := []hns.ACL{in(hns.Block, "", 3000)}
	if ports != "" {
		rules = append([]hns.ACL{in(hns.Allow, ports, 222)}, rules...)
	}
	return state.Dump{
		Pods: []state.PodDump{
			{Pod: "x/api", Addr: "10.0.0.2", Local: true, Owner: true, Endpoints: []string{"e2"}},
			{Pod: "x/web", Addr: "10.0.0.1", Local: true, Owner: true, Endpoints: []string{"e1"}},
		},
		Endpoints: []state.EndpointDump{
			{ID: "e1", Addrs: []string{"10.0.0.1"}, Pod: "x/web", Known: true, Applied: rules, Wanted: rules, ForeignRules: open},
			{ID: "e2", Addrs: []string{"10.0.0.2"}, Pod: "x/api", Known: true, ForeignRules: open},
		},
	}
}

// TestAnyPort: a cell is allowed if any port is, and says which.
func TestAnyPort(t *testing.T) {
	var many []string
	for n := range 200 {
		many = append(many, fmt.Sprint(1000+2*n))
	}
	for ports, want := range map[string]struct{ cell, denier, ports string }{
		"":                       {"b", "i", ""},
		"80":                     {"p", "-", "80/TCP"},
		"80,443":                 {"p", "-", "80/TCP, 443/TCP"},
		"80-82,83,90-91":         {"p", "-", "80-83/TCP, 90-91/TCP"},
		"1-65535":                {"p", "-", "all TCP"},
		"65535,1":                {"p", "-", "1/TCP, 65535/TCP"},
		"2,4,6,8,10,12,14,16,18": {"p", "-", "2/TCP, 4/TCP, 6/TCP, 8/TCP, 10/TCP, 12/TCP, 14/TCP, 16/TCP and 1 more"},
		strings.Join(many, ","): {
			"p", "-", "1000/TCP, 1002/TCP, 1004/TCP, 1006/TCP, 1008/TCP, 1010/TCP, 1012/TCP, 1014/TCP and 40 more; of others it is not known",
		},
	} {
		rec := get(t, handler(guarded(ports)), "/api/matrix?port=any")
		require.Equal(t, http.StatusOK, rec.Code)
		var g grid
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &g))
		require.Equal(t, anyPort, g.Port)
		require.Equal(t, want.cell, g.Cells[0][1:], ports)
		require.Equal(t, want.denier, g.Deniers[0][1:], ports)
		require.Equal(t, want.ports, g.PortTexts[g.Which[0][1]])
		require.Equal(t, "a", g.Cells[1][:1], "nobody guards api")
		require.Equal(t, "all ports", g.PortTexts[g.Which[1][0]])
	}
}

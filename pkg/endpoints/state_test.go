package endpoints

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allStates are the states that an endpoint could be in, whether it can come there or not.
func allStates() (all []endpointState) {
	for rules := rulesUnread; rules <= rulesShielded; rules++ {
		for update := updateSettled; update <= updateBisecting; update++ {
			all = append(all, endpointState{rules: rules, update: update})
		}
	}
	return all
}

// TestEndpointStates: what happens moves one of the two machines, as the table says,
// and leaves the other one alone. What the table does not have panics.
func TestEndpointStates(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do    func(*endpointState)
		moves string // of one machine: from>to
	}{
		"wrote":    {(*endpointState).wrote, "known>known"},
		"brokeOff": {(*endpointState).brokeOff, "known>unknown unknown>unknown shielded>shielded"},
		"shield":   {(*endpointState).shield, "unknown>shielded"},
		"bisect":   {(*endpointState).bisect, "pending>bisecting"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			moves := map[string]string{}
			for move := range strings.FieldsSeq(tt.moves) {
				from, to, _ := strings.Cut(move, ">")
				moves[from] = to
			}
			for _, was := range allStates() {
				is := was
				names := strings.Split(was.String(), ", ")
				at := slices.IndexFunc(names, func(name string) bool { return moves[name] != "" })
				if at < 0 {
					require.Contains(t, bug(func() { tt.do(&is) }), "BUG: an endpoint that is "+was.String())
					continue
				}
				names[at] = moves[names[at]]
				tt.do(&is)
				require.Equal(t, strings.Join(names, ", "), is.String(), "from %v", was)
			}
		})
	}
}

// bug returns what a call panics with, "" for nothing.
func bug(call func()) (text string) {
	defer func() { text, _ = recover().(string) }()
	call()
	return ""
}

// TestEndpointStatesByName: the model of the transaction has the states by their names, or
// its README says why not, and section 2 of the design has a row for each.
func TestEndpointStatesByName(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, s := range allStates() {
		for _, name := range strings.Split(s.String(), ", ") {
			names[name] = true
		}
	}
	require.Len(t, names, 4+3, "each has a name of its own")

	model := read(t, "../../test/model/transaction.pml")
	in := map[string]bool{}
	for _, mtype := range regexp.MustCompile(`(?m)^mtype = \{(.*)\}`).FindAllStringSubmatch(model, -1) {
		for _, name := range strings.Split(mtype[1], ",") {
			in[strings.TrimSpace(name)] = true
			require.Contains(t, names, strings.TrimSpace(name), "a state of the model that no endpoint has")
		}
	}
	rows := rowsOf(t, "../../test/model/README.md", "## States of an endpoint")
	for name := range names {
		modelled := in[name] || strings.Contains(model, "#define "+name+"(e) ")
		require.Equal(t, !modelled, strings.HasPrefix(rows[name], "left out"), "test/model/README.md of %s", name)
	}
	design := rowsOf(t, "../../docs/design.md", "### The states of an endpoint")
	all := slices.Collect(maps.Keys(names))
	require.ElementsMatch(t, all, slices.Collect(maps.Keys(rows)), "test/model/README.md")
	require.ElementsMatch(t, all, slices.Collect(maps.Keys(design)), "docs/design.md")
}

// rowsOf returns the second cells of the rows of the table below a heading, by the name
// that the first cell has.
func rowsOf(t *testing.T, path, heading string) map[string]string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, path), "\n"+heading+"\n")
	require.True(t, found, "%s has no %q", path, heading)
	rest, _, _ = strings.Cut(rest, "\n#")
	rows := map[string]string{}
	for line := range strings.Lines(rest) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `") {
			rows[strings.Trim(cells[1], " `")] = strings.TrimSpace(cells[2])
		}
	}
	return rows
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

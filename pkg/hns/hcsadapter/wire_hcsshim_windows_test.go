package hcsadapter

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// difference is a request that is not byte for byte what hcsshim's types encode.
type difference struct {
	why string
	// keys are in one of the two only, at whatever depth. Without them both are
	// the same JSON value: the order of keys and how a character is escaped aside.
	keys []string
}

const (
	escaping = "json.Marshal, and so hcsshim, escapes <, > and &; what others own goes back as HNS showed it, and names are sent in the same way"
	asShown  = "what others own goes back as HNS showed it; hcsshim's types have an order of their own"
)

// differences are all there are, by the names of rows.
var differences = map[string]difference{
	"set: name with < > &":                      {why: escaping},
	"set: update: name with < > &":              {why: escaping},
	"set: remove: name with < > &":              {why: escaping},
	"foreign: < > & in settings":                {why: escaping},
	"foreign: keys in another order":            {why: asShown},
	"foreign: a key that hcsshim does not know": {why: "nothing that others own is lost", keys: []string{"Remark"}},
	"foreign: ACL with Scope and Type": {
		why: asShown + " and know neither Scope nor Type; azure-container-networking sends such rules cut to the documented keys", keys: []string{"Scope", "Type"},
	},
	"rule: as hcsshim knows it": {why: "AclPolicySetting has no Id; HNS echoes it, azure-container-networking sends it too, and it says what is ours", keys: []string{"Id"}},
}

// TestWireRequests holds every request that changes something against the same
// one, built from hcsshim's types: its bytes, and where these differ its meaning.
func TestWireRequests(t *testing.T) {
	identical := 0
	unseen := maps.Clone(differences)
	for _, row := range slices.Concat(setRows(t), ruleRows(t), foreignRows(t)) {
		t.Run(row.name, func(t *testing.T) {
			l := &recorder{}
			a := newAdapter(Options{Network: "azure"}, l)
			defer a.Close()
			require.NoError(t, row.send(t.Context(), a))
			require.Len(t, l.sent[row.export], 1, "%v", l.sent)
			ours := l.sent[row.export][0]
			d, differs := differences[row.name]
			delete(unseen, row.name)
			if !differs {
				require.Equal(t, row.theirs, ours)
				identical++
				return
			}
			require.NotEqual(t, row.theirs, ours, "they do not differ any more")
			for _, key := range d.keys {
				require.NotEqual(t, count(value(t, row.theirs), key), count(value(t, ours), key), "%s does not differ any more", key)
			}
			require.Equal(t, without(value(t, row.theirs), d.keys), without(value(t, ours), d.keys), "beyond what is listed")
			t.Logf("differs: %s\nours:   %s\ntheirs: %s", d.why, ours, row.theirs)
		})
	}
	require.Empty(t, unseen, "differences of no request")
	t.Logf("%d requests are hcsshim's byte for byte, %d differ as listed", identical, len(differences))
}

// TestWireQueries: no call asks for anything but what hcsshim's types encode.
func TestWireQueries(t *testing.T) {
	for _, name := range []string{"azure", `a<b>&"c" \ü`} {
		l := &recorder{network: name}
		a := newAdapter(Options{Network: name}, l)
		defer a.Close()
		_, err := a.Network(t.Context())
		require.NoError(t, err)
		_, err = a.EndpointIDs(t.Context())
		require.NoError(t, err)
		_, err = a.GetEndpoint(t.Context(), someID)
		require.NoError(t, err)
		l.gone = true // then an enumeration has to agree
		_, err = a.GetEndpoint(t.Context(), someID)
		require.Error(t, err)
		for export, want := range queries(t, name) {
			sent := slices.Compact(slices.Sorted(slices.Values(l.sent[export])))
			require.Equal(t, slices.Sorted(slices.Values(want)), sent, export)
			delete(l.sent, export)
		}
		require.Empty(t, l.sent, "of these the table knows nothing")
	}
}

// recorder is an HNS with one network and one endpoint, which keeps the texts
// that it is given, by export.
type recorder struct {
	network string
	gone    bool // the endpoint is
	sent    map[string][]string
}

func (r *recorder) record(export, text string) {
	if r.sent == nil {
		r.sent = map[string][]string{}
	}
	r.sent[export] = append(r.sent[export], text)
}

func (r *recorder) enumerate(k kind, query string) (string, error) {
	r.record("HcnEnumerate"+string(k)+"s", query)
	if k == kindEndpoint && r.gone {
		return `[]`, nil
	}
	return `["` + someID + `"]`, nil
}

func (r *recorder) open(k kind, _ string) (handle, error) {
	if k == kindEndpoint && r.gone {
		return 0, &failure{code: codeElementNotFound, err: errors.New("gone")}
	}
	return 1, nil
}

func (r *recorder) query(k kind, _ handle, query string) (string, error) {
	r.record("HcnQuery"+string(k)+"Properties", query)
	if k == kindNetwork {
		if r.network == "" {
			r.network = "azure"
		}
		return encode(network{ID: someID, Name: r.network})
	}
	return encode(endpoint{ID: someID, HostComputeNetwork: someID})
}

func (r *recorder) modify(k kind, _ handle, request string) error {
	r.record("HcnModify"+string(k), request)
	return nil
}

func (r *recorder) close(kind, handle) error { return nil }

// row is one request, sent by us and encoded with hcsshim's types.
type row struct {
	name   string
	export string
	send   func(context.Context, *Adapter) error
	theirs string
}

// value returns what JSON says.
func value(t *testing.T, text string) (v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// count returns how many objects of a value have a key and are settings: the
// Type of a policy itself is no setting.
func count(v any, key string) (n int) {
	walk(v, func(settings map[string]any) {
		if _, ok := settings[key]; ok {
			n++
		}
	})
	return n
}

// without takes keys out of the settings of a value.
func without(v any, keys []string) any {
	walk(v, func(settings map[string]any) {
		for _, key := range keys {
			delete(settings, key)
		}
	})
	return v
}

// walk visits the settings of every policy of a request.
func walk(v any, visit func(settings map[string]any)) {
	request, _ := v.(map[string]any)
	all, _ := request["Settings"].(map[string]any)
	list, _ := all["Policies"].([]any)
	for _, p := range list {
		policy, _ := p.(map[string]any)
		if settings, ok := policy["Settings"].(map[string]any); ok {
			visit(settings)
		}
	}
}

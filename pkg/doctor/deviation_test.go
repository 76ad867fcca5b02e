package doctor_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/test/effort"
)

// next makes the call as the stand-in does.
type next func() (doctor.Outcome, error)

// deviant is an HNS that does something otherwise.
type deviant struct {
	doctor.Library
	change func(export string, a doctor.Arguments, do next) (doctor.Outcome, error)
}

// Call implements doctor.Library.
func (d deviant) Call(ctx context.Context, export string, a doctor.Arguments) (doctor.Outcome, error) {
	return d.change(export, a, func() (doctor.Outcome, error) { return d.Library.Call(ctx, export, a) })
}

// shows is an HNS that shows objects of a kind otherwise.
func shows(kind string, pattern, becomes string) func(string, doctor.Arguments, next) (doctor.Outcome, error) {
	find := regexp.MustCompile(pattern)
	return func(export string, _ doctor.Arguments, do next) (doctor.Outcome, error) {
		out, err := do()
		if export == "HcnQuery"+kind+"Properties" {
			out.Output = find.ReplaceAllString(out.Output, becomes)
		}
		return out, err
	}
}

// refuses is an HNS that answers a call, of which a text is like the pattern, with a code.
func refuses(call, pattern string, code uint32) func(string, doctor.Arguments, next) (doctor.Outcome, error) {
	find := regexp.MustCompile(pattern)
	return func(export string, a doctor.Arguments, do next) (doctor.Outcome, error) {
		if export == call && find.MatchString(strings.Join(a.Texts, "\n")) {
			return doctor.Outcome{HResult: code, Record: `{"Success":false,"ErrorCode":1}`}, nil
		}
		return do()
	}
}

// ignores is an HNS that says that it did what it did not.
func ignores(call, pattern string) func(string, doctor.Arguments, next) (doctor.Outcome, error) {
	refusing := refuses(call, pattern, 0)
	return func(export string, a doctor.Arguments, do next) (doctor.Outcome, error) {
		out, err := refusing(export, a, do)
		if strings.HasSuffix(out.Record, `"ErrorCode":1}`) {
			out.Record = ""
		}
		return out, err
	}
}

// answers is an HNS that has another code for a refusal.
func answers(call string, code, becomes uint32) func(string, doctor.Arguments, next) (doctor.Outcome, error) {
	return func(export string, _ doctor.Arguments, do next) (doctor.Outcome, error) {
		out, err := do()
		if export == call && out.HResult == code {
			out.HResult = becomes
		}
		return out, err
	}
}

const invalidPolicy = 0x803b000d

// TestDeviations: what an HNS does otherwise than WinNPM assumes is refuted, nothing else is,
// and nothing of the doctor's stays in such an HNS.
func TestDeviations(t *testing.T) {
	t.Parallel()
	for name, tt := range effort.Some(t, effort.Of(3, 10, 100), map[string]struct {
		change func(string, doctor.Arguments, next) (doctor.Outcome, error)
		want   []string // refuted, and nothing else
	}{
		"values of sets with a length":        {shows("Network", `"Values":"10\.9\.0\.1,`, `"Values":"10.9.0.1/32,`), []string{"W7"}},
		"rules without their Ids":             {shows("Endpoint", `"Id":"azure-acl-[^"]*",`, ``), []string{"W5"}},
		"rules with their Ids in capitals":    {shows("Endpoint", `"Id":"azure-acl-doctor.web"`, `"Id":"AZURE-ACL-DOCTOR.WEB"`), []string{"W5"}},
		"ports in another order":              {shows("Endpoint", `"443,80"`, `"80,443"`), []string{"W6"}},
		"priorities as texts":                 {shows("Endpoint", `"Priority":(\d+)`, `"Priority":"$1"`), []string{"W3", "W8"}},
		"rules without Scope":                 {shows("Endpoint", `,"Scope":0`, ``), []string{"W4"}},
		"names cut":                           {shows("Network", `n{200,}`, `nnn`), []string{"S15"}},
		"names escaped for good":              {refuses("HcnModifyNetwork", `<a>`, invalidPolicy), []string{"W2"}},
		"no foreign rule back":                {refuses("HcnModifyEndpoint", `"Update".*azure-acl.*"Direction":"Out","Priority":65500`, invalidPolicy), []string{"W3"}},
		"no range of ports":                   {refuses("HcnModifyEndpoint", `Ports":"[^"]*-`, invalidPolicy), []string{"A9"}},
		"no SCTP":                             {refuses("HcnModifyEndpoint", `"132"`, 0x80070032), []string{"A10"}},
		"no world":                            {refuses("HcnModifyEndpoint", `\d/[01]["\]]`, 0x803b002f), []string{"A7"}},
		"no IPv6":                             {refuses("HcnModifyEndpoint", `::/0`, 0x803b002f), []string{"A29"}},
		"no nested sets":                      {refuses("HcnModifyNetwork", `NESTEDIPSET`, 0x80070032), []string{"S7", "S8"}},
		"an update of nothing":                {ignores("HcnModifyEndpoint", `"Update","Settings":\{\}`), []string{"A18"}},
		"an update that does nothing":         {ignores("HcnModifyEndpoint", `"Update".*Policies":\[\{`), []string{"A17"}},
		"an update of what is missing":        {refuses("HcnModifyNetwork", `"Update".*0000000000x`, 0x803b0008), []string{"S10"}},
		"refusals that break off":             {answers("HcnModifyEndpoint", invalidPolicy, 0x800706be), []string{"C1", "C2"}},
		"refusals with a code that is no one": {answers("HcnModifyNetwork", invalidPolicy, 0x803b0099), []string{"C1"}},
		"sets that are there twice":           {answers("HcnModifyNetwork", 0x803b0012, 0x80004005), []string{"S11"}},
		"sets that are in use":                {answers("HcnModifyNetwork", 0x803b002c, invalidPolicy), []string{"S12"}},
		"endpoints that cannot be read":       {refuses("HcnQueryEndpointProperties", ``, 0x803b0017), []string{"E4", "W9"}},
		"an endpoint that is gone":            {answers("HcnOpenEndpoint", 0x803b0002, 0x803b0031), []string{"C4"}},
		"a network that is gone":              {answers("HcnOpenNetwork", 0x803b0001, 0x80070002), []string{"C5"}},
		"one address once":                    {onceEach, []string{"E5"}},
		"no version":                          {refuses("HNSCall", ``, 0x80004005), []string{"W12"}},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t)
			r := doctor.Run(t.Context(), deviant{s, tt.change}, options())
			require.ElementsMatch(t, tt.want, refuted(r), "%+v", findings(r))
			require.Empty(t, r.Left)
			untouched(t, s)
		})
	}
}

// unfiltered is an HNS that lists everything, whatever it is asked.
func unfiltered(s standIn) func(string, doctor.Arguments, next) (doctor.Outcome, error) {
	return func(export string, _ doctor.Arguments, do next) (doctor.Outcome, error) {
		if export != "HcnEnumerateEndpoints" {
			return do()
		}
		return s.Call(context.Background(), export, doctor.Arguments{Texts: []string{`{"SchemaVersion":{"Major":2,"Minor":0}}`}})
	}
}

// onceEach is an HNS that gives no address to two endpoints.
func onceEach(export string, a doctor.Arguments, do next) (doctor.Outcome, error) {
	if export == "HcnCreateEndpoint" && strings.HasSuffix(a.ID, "11") {
		return doctor.Outcome{HResult: 0x803b002f}, nil
	}
	return do()
}

// TestUnheededFilters: an HNS that lists the endpoints of all networks loses none of them.
func TestUnheededFilters(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	r := doctor.Run(t.Context(), deviant{s, unfiltered(s)}, options())
	require.Contains(t, refuted(r), "W11")
	untouched(t, s)
}

// TestBusyNode: what goes while it is looked at refutes nothing.
func TestBusyNode(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	gone := false
	r := doctor.Run(t.Context(), deviant{s, func(export string, a doctor.Arguments, do next) (doctor.Outcome, error) {
		if export == "HcnOpenEndpoint" && !gone {
			gone = true
			return doctor.Outcome{HResult: 0x803b0002}, s.Sim().DeleteEndpoint(a.ID)
		}
		return do()
	}}, options())
	require.True(t, gone)
	require.Empty(t, findings(r))
}

// TestNoRights: who may not ask is told so, and nothing is refuted by it.
func TestNoRights(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	r := doctor.Run(t.Context(), deviant{s, func(string, doctor.Arguments, next) (doctor.Outcome, error) {
		return doctor.Outcome{HResult: 0x80070005}, nil
	}}, options())
	require.Empty(t, findings(r))
	require.Empty(t, r.Left)
	require.True(t, r.Denied())
	require.Contains(t, r.Headline(), "as Administrator")
}

// TestSlowCalls: a call that takes longer than the agent waits is refuted, whatever it answers.
func TestSlowCalls(t *testing.T) {
	t.Parallel()
	o, at := options(), time.Now()
	o.Now = func() time.Time {
		at = at.Add(3 * time.Minute)
		return at
	}
	require.Equal(t, []string{"E10"}, refuted(doctor.Run(t.Context(), newStandIn(t), o)))
}

// TestNamespaceHidden: an HNS that does not show the namespace of an attached endpoint differs
// from the simulator, and refutes nothing.
func TestNamespaceHidden(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	r := doctor.Run(t.Context(), deviant{s, shows("Endpoint", `"HostComputeNamespace":"[^"]*",`, ``)}, options())
	require.Empty(t, refuted(r))
	require.Len(t, r.Differences, 1)
	require.Equal(t, "an attached endpoint does not show its namespace", r.Differences[0].Why)
}

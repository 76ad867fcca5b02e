package doctor_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/test/effort"
)

// asked runs a doctor with a second binding.
func asked(t *testing.T, ours, theirs doctor.Library, change ...func(*doctor.Options)) doctor.Result {
	t.Helper()
	o := options()
	o.Second, o.By = theirs, "hcsshim"
	for _, c := range change {
		c(&o)
	}
	return doctor.Run(t.Context(), ours, o)
}

// TestSecondOpinion: two bindings of one HNS answer alike, each request of both phases is
// compared, and nothing of either stays.
func TestSecondOpinion(t *testing.T) {
	t.Parallel()
	for _, l2bridge := range []bool{false, true} {
		s := newStandIn(t)
		written := map[string]bool{}
		r := asked(t, s, deviant{s, func(export string, a doctor.Arguments, do next) (doctor.Outcome, error) {
			if strings.HasPrefix(export, "HcnModify") {
				written[a.ID] = true
			}
			require.NotRegexp(t, "Create|Delete", export, "objects come and go by the first binding")
			return do()
		}}, func(o *doctor.Options) { o.L2Bridge = l2bridge })
		require.Empty(t, r.Second.Differences)
		require.NotContains(t, r.Headline(), "hcsshim")
		require.Greater(t, r.Second.Compared, 600)
		require.Empty(t, findings(r))
		require.Empty(t, r.Left)
		untouched(t, s)
		require.Zero(t, s.OpenHandles()[1], "handles")

		for _, record := range r.Records {
			require.NotContains(t, record.Output, "winnpm-doctor-2", "the first binding's records are of its own objects")
			require.False(t, written[record.ID] && record.ID != "", "both wrote to %s", record.ID)
		}
		require.Len(t, written, 5, "a network, three endpoints and a namespace of its own: %v", written)
	}
}

// TestSecondReadOnly: phase 0 is compared too, and writes nothing by either.
func TestSecondReadOnly(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	r := asked(t, s, s, func(o *doctor.Options) { o.ReadOnly = true })
	require.Empty(t, r.Second.Differences)
	require.Greater(t, r.Second.Compared, 8)
	for export := range s.Counts() {
		require.Regexp(t, "Enumerate|Open|Query|Close|HNSCall", export)
	}
}

// TestSecondDiffers: each thing that the second binding answers otherwise is the first line of
// the report, refutes nothing, and changes nothing of the other probes.
func TestSecondDiffers(t *testing.T) {
	t.Parallel()
	for name, tt := range effort.Some(t, effort.Of(3, 10, 100), map[string]struct {
		change func(string, doctor.Arguments, next) (doctor.Outcome, error)
		want   string // in the first line
		others int    // probes that differ as well; below 0: some
	}{
		"a refusal that ours does not have":  {refuses("HcnModifyNetwork", `grüße`, invalidPolicy), `sets: letters of all the world in a name: HcnModifyNetwork: ours 0x00000000 (done), theirs 0x803b000d HCN_E_INVALID_POLICY (refused)`, 0},
		"another code":                       {answers("HcnModifyEndpoint", invalidPolicy, 0x800706be), `(refused), theirs 0x800706be`, -1},
		"the same class by another code":     {answers("HcnModifyNetwork", 0x803b002c, 0x803b0031), `ours 0x803b002c HCN_E_ENTITY_HAS_REFERENCES (in use), theirs 0x803b0031`, -1},
		"a write that is not made":           {ignores("HcnModifyEndpoint", `"Update".*Policies":\[\{`), `rules: update replaces: HcnQueryEndpointProperties: policy ACL is`, -1},
		"values that are shown otherwise":    {shows("Network", `"Values":"10\.9\.0\.1,`, `"Values":"10.9.0.1/32,`), `10.9.0.1/32,10.9.0.2`, -1},
		"a priority as a text":               {shows("Endpoint", `"Priority":(\d+)`, `"Priority":"$1"`), `policy ACL is {`, -1},
		"another name":                       {shows("Network", `"Name":"azure"`, `"Name":"azurE2"`), `networks: HcnQueryNetworkProperties: Name is "azure" by ours, "azurE2" by theirs`, -1},
		"an address less":                    {shows("Endpoint", `"IpAddress":"10.0.0.4"`, `"IpAddress":""`), `endpoints: HcnQueryEndpointProperties: IpConfigurations is`, -1},
		"no namespace":                       {shows("Endpoint", `"HostComputeNamespace":"[^"]*",`, ``), `HostComputeNamespace is`, -1},
		"an error record beside a success":   {recorded, `theirs 0x00000000 with an error record`, -1},
		"no answer":                          {mute, `networks: HcnQueryNetworkProperties: ours 0x00000000, theirs no answer: mute`, -1},
		"an endpoint less in the list":       {shorter, `endpoints: HcnEnumerateEndpoints: ours lists 2, theirs 0, not in both: `, -1},
		"a version that cannot be read":      {refuses("HNSCall", ``, 0x80004005), `version: HNSCall: ours 0x00000000 (done), theirs 0x80004005`, 0},
		"another version":                    {olderVersion, `version: HNSCall: the answer is`, 0},
		"something missing that is there":    {refuses("HcnQueryEndpointProperties", ``, 0x803b0002), `endpoints: HcnQueryEndpointProperties: ours 0x00000000 (done), theirs 0x803b0002 HCN_E_ENDPOINT_NOT_FOUND (missing)`, -1},
		"something there that ours misses":   {invents, `ours 0x803b0002 HCN_E_ENDPOINT_NOT_FOUND (missing), theirs 0x00000000 (done)`, 0},
		"refusals that are taken":            {ignores("HcnModifyNetwork", `"Add".*nonsense`), `(refused), theirs 0x00000000 (done)`, -1},
		"an update of nothing that is none":  {ignores("HcnModifyEndpoint", `"Update","Settings":\{\}`), `ours shows 0 policies, theirs 1`, -1},
		"a policy of another type in a list": {shows("Endpoint", `"Type":"ACL"`, `"Type":"OutBoundNAT"`), `policy 0 is ACL by ours, OutBoundNAT by theirs`, -1},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t)
			// What reads of the node show needs no network of the doctor's own.
			reads := regexp.MustCompile(`^(networks|endpoints|version): `).MatchString(tt.want)
			r := asked(t, s, deviant{s, tt.change}, func(o *doctor.Options) { o.ReadOnly = reads })
			first, _, _ := strings.Cut(r.Headline(), "; ")
			require.Regexp(t, `^hcsshim answers otherwise: \d+ of \d+ requests, first `, first)
			require.Contains(t, first, tt.want)
			if tt.others >= 0 {
				require.Len(t, r.Second.Differences, tt.others+1, "%+v", r.Second.Differences)
			}
			require.Empty(t, findings(r), "it is the second binding that answers otherwise")
			require.Empty(t, r.Left)
			untouched(t, s)
		})
	}
}

// recorded is a binding that reports an error record beside each success of a write.
func recorded(export string, _ doctor.Arguments, do next) (doctor.Outcome, error) {
	out, err := do()
	if export == "HcnModifyNetwork" && out.HResult == 0 {
		out.Record = `{"Success":false}`
	}
	return out, err
}

// mute is a binding that has no answer to reads of networks.
func mute(export string, _ doctor.Arguments, do next) (doctor.Outcome, error) {
	if export == "HcnQueryNetworkProperties" {
		return doctor.Outcome{}, errMute
	}
	return do()
}

type muteError string

func (e muteError) Error() string { return string(e) }

const errMute = muteError("mute")

// shorter is a binding that lists no endpoint.
func shorter(export string, _ doctor.Arguments, do next) (doctor.Outcome, error) {
	out, err := do()
	if export == "HcnEnumerateEndpoints" {
		out.Output = "[]"
	}
	return out, err
}

func olderVersion(export string, _ doctor.Arguments, do next) (doctor.Outcome, error) {
	out, err := do()
	if export == "HNSCall" {
		out.Output = strings.Replace(out.Output, `"Major":15`, `"Major":14`, 1)
	}
	return out, err
}

// invents is a binding that has an endpoint that is not there.
func invents(export string, a doctor.Arguments, do next) (doctor.Outcome, error) {
	gone := strings.HasSuffix(a.ID, "70ff")
	switch {
	case gone && export == "HcnOpenEndpoint":
		return doctor.Outcome{Handle: 7}, nil
	case gone && export == "HcnQueryEndpointProperties":
		return doctor.Outcome{Output: "{}"}, nil
	}
	return do()
}

// TestSecondKilled: what the second opinion of a killed doctor left is taken away before the
// next one makes anything, also where the next one has no second binding.
func TestSecondKilled(t *testing.T) {
	t.Parallel()
	for _, calls := range []int64{1, 20, 300, 900} {
		s := newStandIn(t)
		var left atomic.Int64
		left.Store(calls)
		ctx, cancel := context.WithCancel(t.Context())
		o := options()
		o.Second, o.By = mortal{s, &left, cancel}, "hcsshim"
		// The process dies with the second binding's last call: no call of either comes after it.
		dead := deviant{s, func(_ string, _ doctor.Arguments, do next) (doctor.Outcome, error) {
			if left.Load() == 0 {
				cancel()
				return doctor.Outcome{}, errKilled
			}
			return do()
		}}
		doctor.Run(ctx, dead, o)
		cancel()

		o = options()
		o.Progress = func(probe string) {
			if probe == "make a network" {
				untouched(t, s)
			}
		}
		r := doctor.Run(t.Context(), s, o)
		require.Empty(t, r.Left, "killed after %d calls", calls)
		untouched(t, s)
	}
}

// TestSecondOnBusyNode: what changes between the two reads of a node is read again by both.
func TestSecondOnBusyNode(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	gone := false
	r := asked(t, s, deviant{s, func(export string, a doctor.Arguments, do next) (doctor.Outcome, error) {
		if export == "HcnQueryEndpointProperties" && !gone {
			gone = true
			require.NoError(t, s.Sim().DeleteEndpoint(a.ID))
		}
		if export == "HcnQueryEndpointProperties" && a.ID == "" {
			return doctor.Outcome{}, nil
		}
		return do()
	}}, func(o *doctor.Options) { o.ReadOnly = true })
	require.True(t, gone)
	require.Empty(t, r.Second.Differences)
}

// TestSecondInZip: the opinion comes back from the zip, and is on its page, the headline first.
func TestSecondInZip(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	r := asked(t, s, deviant{s, refuses("HNSCall", ``, 0x80004005)}, func(o *doctor.Options) { o.ReadOnly = true })
	var file bytes.Buffer
	require.NoError(t, r.WriteZip(&file))
	got, err := doctor.ReadZip(bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.NoError(t, err)
	require.Equal(t, r.Second, got.Second)
	z, err := zip.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.NoError(t, err)
	page, err := z.Open(doctor.ReportFile)
	require.NoError(t, err)
	text, err := io.ReadAll(page)
	require.NoError(t, err)
	require.Regexp(t, `<p><strong>hcsshim answers otherwise: 1 of \d+ requests, first version: HNSCall: `, string(text))
	require.Regexp(t, `\d+ requests were made by hcsshim too; 1 were answered otherwise`, string(text))
}

// TestSecondHashed: no name of the node is in a difference.
func TestSecondHashed(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	r := asked(t, s, deviant{s, shows("Network", `"Name":"azure"`, `"Name":"azure-otherwise"`)}, func(o *doctor.Options) { o.ReadOnly = true })
	require.NotEmpty(t, r.Second.Differences)
	r.HashNames([]byte("key"))
	for _, d := range r.Second.Differences {
		require.NotContains(t, d.What, `"azure"`)
	}
}

package node

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestReadClaim(t *testing.T) {
	var line bytes.Buffer
	require.NoError(t, writeLine(&line, claimOfTest()))
	got, err := readClaim(&line)
	require.NoError(t, err)
	require.Equal(t, claimOfTest(), got)

	got, err = readClaim(strings.NewReader(`{"namespace":"a","name":"b","containerID":"c","addresses":["::ffff:10.0.0.1"],"wait":1,"later":{"x":[]}}` + "\n"))
	require.NoError(t, err, "what a later plugin says besides is ignored")
	require.Equal(t, Claim{Namespace: "a", Name: "b", ContainerID: "c", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Wait: 1}, got)

	for name, tc := range map[string]struct{ in, want string }{
		"nothing":        {"", "nothing was said"},
		"half a line":    {`{"namespace":"a"}`, "half a line: EOF"},
		"too long":       {strings.Repeat(" ", mostOfClaim), "a line of more than 65536 bytes"},
		"no JSON":        {"hello\n", "invalid character 'h' looking for beginning of value"},
		"more":           {"{}\n{}\n", "more than one line"},
		"empty":          {"{}\n", `namespace "" is none of a pod`},
		"bad address":    {`{"addresses":["10.0.0.300"]}` + "\n", `ParseAddr("10.0.0.300"): IPv4 field has value >255`},
		"wait as a text": {`{"wait":"10s"}` + "\n", "json: cannot unmarshal string into Go struct field Claim.wait of type time.Duration"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readClaim(strings.NewReader(tc.in))
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestCheck(t *testing.T) {
	require.NoError(t, claimOfTest().check())
	long := strings.Repeat("a", 600)
	for want, change := range map[string]func(*Claim){
		`namespace "a.b" is none of a pod`:                        func(c *Claim) { c.Namespace = "a.b" },
		`namespace "" is none of a pod`:                           func(c *Claim) { c.Namespace = "" },
		`name "a/b" is none of a pod`:                             func(c *Claim) { c.Name = "a/b" },
		`name "a\nb" is none of a pod`:                            func(c *Claim) { c.Name = "a\nb" },
		`name of 600 bytes`:                                       func(c *Claim) { c.Name = long },
		`uid "\x1b[31m" is none of a pod`:                         func(c *Claim) { c.UID = "\x1b[31m" },
		`containerID "" is none of a pod`:                         func(c *Claim) { c.ContainerID = "" },
		`containerID of 600 bytes`:                                func(c *Claim) { c.ContainerID = long },
		"netns or endpoint is no line of at most 512 characters":  func(c *Claim) { c.Netns = long },
		"netns or endpoint is no line of at most 512 characters ": func(c *Claim) { c.Endpoint = "a\r\nb" },
		"17 addresses, at most 16":                                func(c *Claim) { c.Addresses = slices.Repeat(c.Addresses[:1], 17) },
		"an address that no pod has":                              func(c *Claim) { c.Addresses[1] = netip.MustParseAddr("fe80::1%" + long) },
		"an address that no pod has ":                             func(c *Claim) { c.Addresses[1] = netip.Addr{} },
		"an address that no pod has  ":                            func(c *Claim) { c.Addresses[1] = netip.MustParseAddr("127.0.0.1") },
		"an address that no pod has   ":                           func(c *Claim) { c.Addresses[1] = netip.IPv4Unspecified() },
		"wait of 0s, more than 0 and at most 5m0s":                func(c *Claim) { c.Wait = 0 },
		"wait of -1s, more than 0 and at most 5m0s":               func(c *Claim) { c.Wait = -time.Second },
		"wait of 5m1s, more than 0 and at most 5m0s":              func(c *Claim) { c.Wait = MaxWait + time.Second },
	} {
		t.Run(want, func(t *testing.T) {
			c := claimOfTest()
			change(&c)
			require.EqualError(t, c.check(), strings.TrimRight(want, " "))
		})
	}
}

func TestReadAnswer(t *testing.T) {
	got, err := readAnswer(strings.NewReader(`{"code":"new\u001b","reason":"a\nb` + strings.Repeat("é", 1000) + `"}` + "\n"))
	require.NoError(t, err)
	require.Equal(t, "new\uFFFD", got.Code)
	require.True(t, strings.HasPrefix(got.Reason, "a\uFFFDbéé"), got.Reason)
	require.LessOrEqual(t, len(got.Reason), mostOfReason+utf8.UTFMax)

	_, err = readAnswer(strings.NewReader(strings.Repeat("x", 2*mostOfAnswer)))
	require.EqualError(t, err, "a line of more than 16384 bytes")

	// Whatever a claimer says, the answer fits.
	var line bytes.Buffer
	require.NoError(t, writeLine(&line, Answer{Code: CodeFailed, Reason: reason(strings.Repeat("<", 9000))}))
	_, err = readAnswer(&line)
	require.NoError(t, err)
}

// What comes over the pipe never panics, is never more than a claim may be, and means
// the same when it is sent on.
func FuzzReadClaim(f *testing.F) {
	var line bytes.Buffer
	require.NoError(f, writeLine(&line, claimOfTest()))
	f.Add(line.Bytes())
	f.Add([]byte(`{"namespace":"a","name":"b","containerID":"c","addresses":["::ffff:10.0.0.1"],"wait":1}` + "\n"))
	f.Add([]byte(`{"addresses":["fe80::1%` + strings.Repeat("x", 300) + `"]}` + "\n"))
	f.Add([]byte("{\"name\":\"\\ud800\"}\n\n"))
	f.Add([]byte(strings.Repeat("[", 2000) + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := readClaim(bytes.NewReader(in))
		if err != nil {
			require.Zero(t, c)
			return
		}
		require.NoError(t, c.check())
		out, err := json.Marshal(c)
		require.NoError(t, err)
		again, err := readClaim(bytes.NewReader(append(out, '\n')))
		require.NoError(t, err)
		sent, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(out), string(sent))
	})
}

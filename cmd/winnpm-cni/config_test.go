package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/node"
)

func TestParse(t *testing.T) {
	got, err := parse([]byte(`{"type":"winnpm-cni"}`))
	require.NoError(t, err)
	require.Equal(t, config{Mode: "wait", WaitSeconds: 10, Pipe: node.DefaultPipe}, got)
	got, err = parse([]byte(`{"mode":"strict","waitSeconds":300,"pipe":"\\\\.\\pipe\\agent"}`))
	require.NoError(t, err)
	require.Equal(t, config{Mode: "strict", WaitSeconds: 300, Pipe: `\\.\pipe\agent`}, got)

	for in, want := range map[string]string{
		`{"mode":"Strict"}`:      `mode "Strict"; use strict, wait or off`,
		`{"mode":""}`:            `mode ""; use strict, wait or off`,
		`{"mode":"a\nb"}`:        `mode "a\nb"; use strict, wait or off`,
		`{"mode":7}`:             `json: cannot unmarshal number into Go struct field config.mode of type string`,
		`{"waitSeconds":-1}`:     `waitSeconds -1; use 1 to 300, or mode off`,
		`{"waitSeconds":0}`:      `waitSeconds 0; use 1 to 300, or mode off`,
		`{"waitSeconds":301}`:    `waitSeconds 301; use 1 to 300, or mode off`,
		`{"waitSeconds":"10"}`:   `json: cannot unmarshal string into Go struct field config.waitSeconds of type int`,
		`{"pipe":""}`:            `pipe ""; leave it out for \\.\pipe\winnpm-cni, or use mode off`,
		`[]`:                     `json: cannot unmarshal array into Go value of type main.config`,
		`{"mode":"off"} trailer`: `invalid character 't' after top-level value`,
	} {
		_, err := parse([]byte(in))
		require.EqualValues(t, types.ErrInvalidNetworkConfig, code(t, err), in)
		require.EqualError(t, err, "winnpm-cni: configuration: "+want)
	}
}

// Without the result of another plugin there is nothing to wait for, in every mode. Off hands
// on whatever it is.
func TestPrevResult(t *testing.T) {
	for _, mode := range []string{"strict", "wait", "off"} {
		for in, want := range map[string]string{
			`null`:                             "no prevResult; put it behind the plugin that makes the endpoint, in a list",
			`""`:                               "prevResult: json: cannot unmarshal string into Go value of type main.prevResult",
			`{"ips":[{"address":"10.1.0.7"}]}`: `prevResult: netip.ParsePrefix("10.1.0.7"): no '/'`,
		} {
			args := argsOf(`"mode":"` + mode + `",`)
			args.StdinData = []byte(strings.Replace(string(args.StdinData), resultOfTest, in, 1))
			stdout, _, err := run(t, never(t), plugin.add, args)
			if mode == "off" && in != "null" {
				require.NoError(t, err)
				require.Equal(t, in, stdout)
				continue
			}
			require.EqualValues(t, types.ErrInvalidNetworkConfig, code(t, err), in)
			require.EqualError(t, err, "winnpm-cni: configuration: "+want)
			require.Empty(t, stdout)
		}
		args := argsOf("")
		args.StdinData = []byte(`{"mode":"` + mode + `"}`)
		_, _, err := run(t, never(t), plugin.add, args)
		require.ErrorContains(t, err, "no prevResult")
	}
}

func TestEndpoint(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                                  "",
		`{"ips":[{"address":"10.1.0.7/16"}]}`: "",
		`{"interfaces":[{"name":"a"}]}`:       "",
		`{"ips":[{"address":"10.1.0.7/16"}],"interfaces":[{"name":"a"},{"name":"b"}]}`:        "a",
		`{"ips":[{"address":"10.1.0.7/16","interface":1}],"interfaces":[{},{"name":"b"}]}`:    "b",
		`{"ips":[{"address":"10.1.0.7/16","interface":2}],"interfaces":[{},{"name":"b"}]}`:    "",
		`{"ips":[{"address":"10.1.0.7/16","interface":-1}],"interfaces":[{"name":"a"}]}`:      "",
		`{"ips":[{"address":"10.1.0.7/16","interface":null}],"interfaces":[{"name":"a"},{}]}`: "a",
	} {
		r, err := config{PrevResult: json.RawMessage(in)}.result()
		require.NoError(t, err)
		require.Equal(t, want, r.endpoint(), in)
	}
}

// always leads to an agent that has every endpoint ready.
func always(context.Context, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		if _, err := bufio.NewReader(theirs).ReadBytes('\n'); err == nil {
			_, _ = io.WriteString(theirs, "{\"ready\":true}\n")
		}
	}()
	return ours, nil
}

// Whatever is on stdin and in CNI_ARGS: no panic, and the result goes out as it came in
// or not at all.
func FuzzAdd(f *testing.F) {
	f.Add(argsOf("").StdinData, podArgsOfTest)
	f.Add(argsOf(`"mode":"strict",`).StdinData, "K8S_POD_NAME=a")
	f.Add(argsOf(`"mode":"off","waitSeconds":1,`).StdinData, "")
	f.Add([]byte(`{"prevResult":{"ips":[{"address":"::ffff:1.2.3.4/96","interface":-9}],"interfaces":[null]}}`), ";=")
	f.Add([]byte(`{"PREVRESULT":null,"prevResult":[]}`), "IgnoreUnknown=x")
	f.Fuzz(func(t *testing.T, stdin []byte, podArgs string) {
		args := argsOf("")
		args.StdinData, args.Args = stdin, podArgs
		stdout, _, err := run(t, always, plugin.add, args)
		if err != nil {
			require.NotZero(t, code(t, err))
			require.Empty(t, stdout)
			return
		}
		require.True(t, json.Valid([]byte(stdout)))
		require.Contains(t, string(stdin), stdout)
	})
}

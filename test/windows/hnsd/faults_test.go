package hnsd

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// bench is a node with a pod, whose endpoint and network are open.
type bench struct {
	*Server
	c                 *client
	pod               guid
	network, endpoint uint64
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s, c := start(t, Options{})
	b := &bench{Server: s, c: c, pod: pod(t, s)}
	b.network, b.endpoint = c.open("Network", s.own.id), c.open("Endpoint", b.pod)
	t.Cleanup(func() { require.Empty(t, s.UnusedFaults()) })
	return b
}

// addSet is the request that makes a set.
func (b *bench) addSet(name string) request {
	return request{handle: b.network, text: [2]string{modify(hns.Add, setPolicy(name, hns.IPSet, "10.0.0.4"))}}
}

const warning = `{"Success":true,"Error":"warning"}`

func TestFaultAnswers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault   Fault
		code    uint32
		record  string // of the answer
		there   bool   // whether the set was made
		waiting bool   // whether the fault did not take this call
	}{
		"an error":                {fault: Fault{Code: 0x803B0002}, code: 0x803B0002},
		"an error with a record":  {fault: Fault{Code: 0x80070490, Record: "Element not found."}, code: 0x80070490, record: "Element not found."},
		"S_OK with a record":      {fault: Fault{Record: warning}, record: warning},
		"the same, but done":      {fault: Fault{Record: warning, Done: true}, record: warning, there: true},
		"done, but an error":      {fault: Fault{Code: 0x800706BE, Done: true}, code: 0x800706BE, there: true},
		"S_FALSE":                 {fault: Fault{Code: 1}, code: 1},
		"done without an answer":  {fault: Fault{Done: true}, there: true},
		"nothing but a visit":     {fault: Fault{Do: func() {}}, there: true},
		"a fault of the proc":     {fault: Fault{Proc: "HcnModifyNetwork", Code: 0x80004005}, code: 0x80004005},
		"a fault of another proc": {fault: Fault{Proc: "HcnCloseNetwork", Code: 0x80004005}, there: true, waiting: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Inject(tt.fault)
			a := b.c.call("HcnModifyNetwork", b.addSet("azure-npm-a"))
			require.Equal(t, tt.code, a.code, "0x%08x", a.code)
			if tt.record == "" {
				require.Nil(t, a.record)
			} else {
				require.Equal(t, tt.record, *a.record)
			}
			require.Equal(t, tt.there, len(b.Sim().Sets()) == 1)
			if tt.waiting {
				require.Len(t, b.UnusedFaults(), 1)
				require.Equal(t, tt.fault.Code, b.c.call("HcnCloseNetwork", request{handle: b.network}).code)
			}
			b.c.do("HcnModifyNetwork", request{handle: b.c.open("Network", b.own.id), text: [2]string{modify(hns.Add, setPolicy("azure-npm-b", hns.IPSet, ""))}})
		})
	}
}

func TestFaultNth(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Inject(Fault{Proc: "HcnModifyNetwork", Nth: 3, Times: 2, Code: codeFail})
	b.Inject(Fault{Nth: 1, Times: -1, Proc: "HcnModifyEndpoint", Code: codeFail})
	var got []bool
	for i := range 6 {
		got = append(got, b.c.call("HcnModifyNetwork", b.addSet(fmt.Sprint("azure-npm-", i))).code == codeFail)
		b.c.ids("HcnEnumerateNetworks", allQuery)
		require.Equal(t, codeFail, b.c.call("HcnModifyEndpoint", request{handle: b.endpoint}).code)
	}
	require.Equal(t, []bool{false, false, true, true, false, false}, got)
}

// hcsshim reads the output of a call that succeeded without looking whether
// there is one.
func TestFaultOutputs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for proc, want := range map[string]string{
		"HcnEnumerateNetworks": "[]", "HcnEnumerateEndpoints": "[]", "HcnQueryNetworkProperties": "{}", "HcnQueryEndpointProperties": "{}",
	} {
		b.Inject(Fault{Code: 1})
		a := b.c.call(proc, request{})
		require.Equal(t, want, *a.output)
	}
	b.Inject(Fault{Record: warning, Done: true})
	a := b.c.call("HcnEnumerateNetworks", request{text: [2]string{allQuery}})
	require.Contains(t, *a.output, b.own.id.String())
}

// An endpoint vanishes between Enumerate and Open.
func TestFaultDo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Inject(Fault{Proc: "HcnOpenEndpoint", Do: func() { require.NoError(t, b.Sim().DeleteEndpoint(b.pod.String())) }})
	ids := b.c.ids("HcnEnumerateEndpoints", allQuery)
	require.Equal(t, []guid{b.pod}, ids)
	b.c.refused(codeEndpointNotFound, "HcnOpenEndpoint", request{id: ids[0]})
}

func TestFaultHang(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault        Fault
		during, then bool // whether the set is there
		code         uint32
	}{
		"late":              {Fault{Hang: true}, false, true, 0},
		"done, then silent": {Fault{Hang: true, Done: true}, true, true, 0},
		"late, an error":    {Fault{Hang: true, Code: codeFail}, false, false, codeFail},
		"done, an error":    {Fault{Hang: true, Done: true, Code: codeFail}, true, true, codeFail},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			there := func() bool { return len(b.Sim().Sets()) == 1 }
			hanging := make(chan struct{})
			tt.fault.Proc, tt.fault.Do = "HcnModifyNetwork", func() { close(hanging) }
			b.Inject(tt.fault)
			b.ReleaseHangs() // those of now: the call to come hangs all the same

			b.c.send("HcnModifyNetwork", b.addSet("azure-npm-a"))
			<-hanging
			other := b.c.as(2)
			require.Len(t, other.ids("HcnEnumerateNetworks", allQuery), 1, "others are served")
			if tt.during {
				require.Eventually(t, there, waitFor, tick)
			} else {
				require.False(t, there())
			}
			b.ReleaseHangs()
			a, err := b.c.receive()
			require.NoError(t, err)
			require.Equal(t, tt.code, a.code)
			require.Equal(t, tt.then, there())
		})
	}
}

// The end of the server breaks off what hangs, above and below the boundary.
func TestEndDuringHang(t *testing.T) {
	t.Parallel()
	for name, inject := range map[string]func(*Server, func()){
		"at the boundary": func(s *Server, hanging func()) { s.Inject(Fault{Hang: true, Do: hanging}) },
		"in the simulator": func(s *Server, hanging func()) {
			s.Sim().OnCall(func(hnsfault.Call, hnsfault.When) { hanging() })
			s.Sim().Inject(hnsfault.Fault{Mode: hnsfault.Hang})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c *client
			t.Run("server", func(t *testing.T) { // ends the server when it ends
				b := newBench(t)
				c = connect(t, b.c.conn.RemoteAddr().String(), 1)
				hanging := make(chan struct{})
				var once sync.Once
				inject(b.Server, func() { once.Do(func() { close(hanging) }) })
				b.c.send("HcnModifyNetwork", b.addSet("azure-npm-a"))
				<-hanging
			})
			_, err := c.receive()
			require.Error(t, err)
		})
	}
}

// A restart of HNS breaks off what hangs in it.
func TestRestartDuringHang(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.c.do("HcnModifyNetwork", b.addSet("azure-npm-a"))
	hanging := make(chan struct{})
	b.Sim().Inject(hnsfault.Fault{Op: "ACL/Update", Mode: hnsfault.Hang})
	b.Sim().OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if c.Op == "ACL/Update" && when == hnsfault.Before {
			close(hanging)
		}
	})
	b.c.send("HcnModifyEndpoint", request{handle: b.endpoint, text: [2]string{modify(hns.Update)}})
	<-hanging
	require.Eventually(t, func() bool { return len(b.Sim().UnusedFaults()) == 0 }, waitFor, tick)
	b.Sim().Restart(true)
	a, err := b.c.receive()
	require.NoError(t, err)
	require.Equal(t, codeCallFailed, a.code)
	require.Empty(t, b.Sim().Sets())
	b.c.do("HcnModifyNetwork", b.addSet("azure-npm-a"))
}

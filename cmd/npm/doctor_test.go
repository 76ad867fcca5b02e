package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// standIn is the HNS of the tests under Wine, without the DLLs.
type standIn struct {
	*hnsd.Server
	closed   bool
	restarts uint32
}

// Call implements doctor.Library.
func (s *standIn) Call(ctx context.Context, export string, a doctor.Arguments) (doctor.Outcome, error) {
	d, err := s.Server.Call(ctx, export, a.ID, a.Handle, a.Texts...)
	return doctor.Outcome(d), err
}

func (s *standIn) Close() { s.closed = true }

// PID implements doctor.Service.
func (s *standIn) PID() (uint32, error) { return 1 + s.restarts, nil }

// Restart implements doctor.Service.
func (s *standIn) Restart(context.Context) error {
	s.restarts++
	return nil
}

// host is a system with this HNS.
func (s *standIn) host(lockErr error) host {
	return host{
		raw:       func(time.Duration) (rawHNS, error) { return s, nil },
		restarter: func() doctor.Service { return s },
		alone: func(context.Context, func(int)) (func(), error) {
			return func() {}, lockErr
		},
		facts: func() doctor.Node {
			return doctor.Node{OS: "a test", Keys: map[string]string{"HnsAclUpdateChange": "1"}}
		},
	}
}

// examine runs npm doctor.
func examine(t *testing.T, this host, args ...string) (out string, err error) {
	t.Helper()
	var said bytes.Buffer
	cmd := newDoctor(streams{nil, &said, io.Discard}, this)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return said.String(), err
}

// readResult reads a zip.
func readResult(t *testing.T, file string) doctor.Result {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	r, err := doctor.ReadZip(bytes.NewReader(text), int64(len(text)))
	require.NoError(t, err)
	return r
}

// TestDoctor: one zip comes of it, with what the flags ask for, and none is written over.
func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	s := &standIn{Server: hnsd.New(hnsd.Options{Network: "azure-of-ours", Foreign: hnssim.DefaultForeign()})}
	whole, reads, again := filepath.Join(dir, "whole.zip"), filepath.Join(dir, "reads.zip"), filepath.Join(dir, "again.zip")

	out, err := examine(t, s.host(nil), "-o", whole)
	require.NoError(t, err)
	require.Regexp(t, `^0 refuted, \d+ unknown, \d+ held of \d+ assumptions\n`, out)
	require.Contains(t, out, whole)
	require.True(t, s.closed)
	r := readResult(t, whole)
	require.Equal(t, "NAT", r.OwnNetwork)
	require.Equal(t, "1", r.Node.Keys["HnsAclUpdateChange"])
	require.False(t, r.Hashed)

	require.Zero(t, s.restarts, "nobody has asked for it")
	out, err = examine(t, s.host(nil), "-o", again, "--restart-hns")
	require.NoError(t, err, out)
	require.EqualValues(t, 1, s.restarts)
	require.NoError(t, os.Remove(again))

	_, err = examine(t, s.host(nil), "-o", whole)
	require.ErrorContains(t, err, "is there already")

	_, err = examine(t, s.host(nil), "-o", reads, "--read-only", "--hash-names")
	require.NoError(t, err)
	r = readResult(t, reads)
	require.Empty(t, r.OwnNetwork)
	require.True(t, r.Hashed)
	for _, record := range r.Records {
		require.NotContains(t, record.Export, "Modify")
		require.NotContains(t, record.Export, "Create")
		require.NotContains(t, record.Export, "Delete")
		require.NotContains(t, record.Output, "azure-of-ours")
	}

	_, err = examine(t, s.host(nil), "--read-only", "--packets")
	require.ErrorContains(t, err, "if any flags in the group")

	_, err = examine(t, s.host(errors.New("another doctor")), "-o", filepath.Join(dir, "none.zip"))
	require.ErrorContains(t, err, "another doctor")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 2, "nothing else is left in the folder")
}

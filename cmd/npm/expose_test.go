package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/debug/access"
)

const exposing = `{"Toggles": {"ExposeDebugAPI": true, "EnablePprof": true}}`

// Other machines see pages over HTTPS, with a token whose user may, under the
// key that the log names. A certificate is asked for, and whose it is asked of the
// API server, which here takes none.
func TestStartExposed(t *testing.T) {
	s := start(t, newFake(), exposing, "--listen-debug", "127.0.0.1:0")
	said := s.log("debug pages answer other machines")
	certificate, _, err := access.SelfSigned("ann")
	require.NoError(t, err)
	own, err := certificate(nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*own},
		VerifyConnection: func(c tls.ConnectionState) error {
			sum := sha256.Sum256(c.PeerCertificates[0].RawSubjectPublicKeyInfo)
			if "sha256//"+base64.StdEncoding.EncodeToString(sum[:]) != said["pinnedpubkey"] {
				return x509.ErrUnsupportedAlgorithm
			}
			return nil
		},
	}}}
	for _, tc := range []struct {
		path, token string
		code        int
		body        string
	}{
		{debug.ManagerPath, "t-ann", 200, `"NodeName":"win-1"`},
		{debug.ManagerPath, "t-eve", 401, "does not know the bearer token"},
		{debug.ManagerPath, "", 401, "the API server of this cluster takes no client certificates"},
		{"/debug/pprof/heap", "t-ann", 403, "ann may not get /debug/pprof/heap"},
		{"/healthz", "", 401, "takes no client certificates; send a bearer token"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+said["listening"].(string)+tc.path, nil)
		require.NoError(t, err)
		if tc.token != "" {
			req.Header.Set("Authorization", "Bearer "+tc.token)
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, tc.code, resp.StatusCode, string(body))
		require.Contains(t, string(body), tc.body)
	}
	require.Equal(t, "made by itself", said["certificate"])
	require.Equal(t, true, s.log("somebody asks for a debug page")["allowed"])
	s.stop()
	require.NoError(t, <-s.ended)
}

func TestExposeErrors(t *testing.T) {
	api, err := controllers.RESTConfig(apiServer(t))
	require.NoError(t, err)
	set := settings{config: config{ExposeDebug: true}, node: "win-1"}
	set.DebugCertFile, set.DebugKeyFile = "none.crt", "none.key"
	_, err = expose(set, api, klog.Logger{})
	require.ErrorContains(t, err, "DebugTLSCertFile, DebugTLSKeyFile: open none.crt: ")

	none, err := expose(settings{}, api, klog.Logger{})
	require.NoError(t, err)
	require.Nil(t, none.certificate)
}

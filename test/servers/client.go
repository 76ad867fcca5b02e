package servers

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

// Client is a client of an API server that uses JSON and not client-go.
type Client struct {
	server, token string
	http          *http.Client
}

// Status is the HTTP status of a failed request to an API server, as an error.
type Status int

// Error implements error.
func (s Status) Error() string { return http.StatusText(int(s)) }

// NewClient returns the administrator's client for a kubeconfig, as returned by Start.
func NewClient(kubeconfig string) (*Client, error) {
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CA     []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Token string `json:"token"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if len(config.Clusters) != 1 || len(config.Users) != 1 || !roots.AppendCertsFromPEM(config.Clusters[0].Cluster.CA) {
		return nil, errors.New(kubeconfig + " has not one cluster, with its certificate, and one user")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	return &Client{
		server: config.Clusters[0].Cluster.Server, token: config.Users[0].User.Token,
		http: &http.Client{Transport: transport, Timeout: time.Minute},
	}, nil
}

// Do makes a request. It encodes body as JSON, unless that is nil, and decodes the answer into the other
// value, unless that is nil. A PATCH is a merge patch. An error of the API server is a Status.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) error {
	var content []byte
	var err error
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s %s: %w: %s", method, path, Status(answer.StatusCode), text)
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}

// Remove deletes the object at a path without a grace period. It is no error if the object does not exist.
func (c *Client) Remove(ctx context.Context, path string) error {
	err := c.Do(ctx, http.MethodDelete, path+"?gracePeriodSeconds=0", nil, nil)
	if errors.Is(err, Status(http.StatusNotFound)) {
		return nil
	}
	return err
}

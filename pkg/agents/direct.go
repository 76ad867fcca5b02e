package agents

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"k8s.io/client-go/rest"
)

// DebugPort is where agents answer other machines, when they are told to.
const DebugPort = 10093

// ErrNoAuthority says that nobody vouches for the agents.
var ErrNoAuthority = errors.New("who asks agents at their nodes shows them a token or a certificate: give a file with the authority of the agents' certificates")

// Direct has the agents asked at the addresses of their nodes, over HTTPS, rather than by way
// of port-forwards: with the token or client certificate of the kubeconfig. It is shown only to
// who has a certificate for the name of the node from an authority in the file.
func (c *Cluster) Direct(authority string, port uint16) error {
	if authority == "" {
		return ErrNoAuthority
	}
	c.direct = func(a Agent) (http.RoundTripper, error) {
		cfg := rest.CopyConfig(c.api)
		cfg.Host = "https://" + net.JoinHostPort(a.HostIP, strconv.Itoa(int(port)))
		cfg.Insecure, cfg.CAData, cfg.CAFile, cfg.ServerName = false, nil, authority, a.Node
		cfg.Proxy, cfg.Dial, cfg.APIPath = nil, nil, ""
		next, err := rest.TransportFor(cfg)
		if err != nil {
			return nil, fmt.Errorf("asking %s at its node: %w", a, err)
		}
		return toNode{next, cfg.Host[len("https://"):]}, nil
	}
	_, err := c.direct(Agent{HostIP: "127.0.0.1", Node: "any"}) // what is wrong with the file is said at once
	return err
}

// toNode sends requests to a node, whatever host their URL names.
type toNode struct {
	next http.RoundTripper
	host string
}

// RoundTrip implements http.RoundTripper.
func (t toNode) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host, out.Host = "https", t.host, t.host
	return t.next.RoundTrip(out)
}

// failed answers every request with an error.
type failed struct{ err error }

// RoundTrip implements http.RoundTripper.
func (f failed) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

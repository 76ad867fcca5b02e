package main

import (
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// forward does the work of the API server and of the kubelet: it makes the
// connection one for streams, and connects them with the backend.
func (c *apiServer) forward(w http.ResponseWriter, r *http.Request) {
	tunnel := websocket.IsWebSocketUpgrade(r)
	verb := "create"
	if tunnel {
		verb = "get"
	}
	if c.forbids(w, verb, "pods/portforward", r.PathValue("namespace")) {
		return
	}
	if c.find(w, r, "pods") == nil {
		return
	}
	streams := make(chan httpstream.Stream, 2)
	accept := func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	}
	var conn httpstream.Connection
	switch {
	case tunnel && c.NoWebSocket:
		http.Error(w, "no such upgrade", http.StatusBadRequest)
		return
	case tunnel:
		upgrader := websocket.Upgrader{Subprotocols: []string{"SPDY/3.1+" + portforward.PortForwardProtocolV1Name}}
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // it has answered
		}
		if conn, err = spdy.NewServerConnection(portforward.NewTunnelingConnection("server", ws), accept); err != nil {
			c.t.Errorf("fake API server: %v", err)
			return
		}
	default:
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			return // it has answered
		}
		if conn = spdy.NewResponseUpgrader().UpgradeResponse(w, r, accept); conn == nil {
			return
		}
	}
	way := "spdy"
	if tunnel {
		way = "websocket"
	}
	c.forwards.Go(func() { c.connect(conn, streams, way, podName(r)) })
}

// connect serves one port-forward until its client ends it.
func (c *apiServer) connect(conn httpstream.Connection, streams <-chan httpstream.Stream, way, pod string) {
	defer conn.Close()
	byType := map[string]httpstream.Stream{}
	for len(byType) < 2 {
		select {
		case s := <-streams:
			byType[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		}
	}
	data, reasons := byType[corev1.StreamTypeData], byType[corev1.StreamTypeError]
	port := pod + ":" + data.Headers().Get(corev1.PortHeader)
	c.called(way, port)
	backend, ok := c.Backends[port]
	if !ok {
		_, _ = io.WriteString(reasons, "connect to "+port+": connection refused\n")
		_ = data.Close()
		_ = reasons.Close()
		<-conn.CloseChan()
		return
	}
	remote, err := new(net.Dialer).DialContext(c.t.Context(), "tcp", backend)
	if err != nil {
		c.t.Errorf("backend of %s: %v", port, err)
		return
	}
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(remote, data) // until the client goes
		_ = remote.Close()
	})
	_, _ = io.Copy(data, remote)
	_ = data.Close()
	_ = reasons.Close()
	<-conn.CloseChan()
	_ = remote.Close()
	copying.Wait()
}

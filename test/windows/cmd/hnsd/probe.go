package main

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

var protocols = map[string]uint8{"TCP": 6, "UDP": 17, "SCTP": 132}

// parsePacket reads FROM->TO:PORT/PROTO, with addresses.
func parsePacket(text string) (hnssim.Packet, error) {
	bad := fmt.Errorf("%q is not FROM->TO:PORT/PROTO with IPv4 addresses", text)
	from, rest, _ := strings.Cut(text, "->")
	to, proto, _ := strings.Cut(rest, "/")
	src, err := netip.ParseAddr(from)
	if err != nil || !src.Is4() {
		return hnssim.Packet{}, bad
	}
	dst, err := netip.ParseAddrPort(to)
	if err != nil || !dst.Addr().Is4() || protocols[proto] == 0 {
		return hnssim.Packet{}, bad
	}
	return hnssim.Packet{Src: src, Dst: dst.Addr(), Protocol: protocols[proto], DstPort: dst.Port()}, nil
}

// probes asks about packets at every endpoint that they leave or enter.
func probes(sim *hnsfault.Sim, packets []hnssim.Packet) []hnsfault.Probe {
	var all []hnsfault.Probe
	for _, p := range packets {
		for _, e := range sim.Endpoints() {
			if slices.Contains(e.Addrs, p.Src) {
				all = append(all, hnsfault.Probe{Endpoint: e.ID, Direction: hns.Out, Packet: p})
			}
			if slices.Contains(e.Addrs, p.Dst) {
				all = append(all, hnsfault.Probe{Endpoint: e.ID, Direction: hns.In, Packet: p})
			}
		}
	}
	return all
}

// writeTransitions writes one line for each verdict that a write has moved.
func writeTransitions(w io.Writer, sim *hnsfault.Sim) {
	for _, x := range sim.Transitions() {
		p := x.Probe
		fmt.Fprintf(w, "%s write %d %s %s: %s %v->%s/%d %v, was %v\n", x.At.Format("15:04:05.000"), x.Write, x.Op, x.Target,
			p.Direction, p.Src, netip.AddrPortFrom(p.Dst, p.DstPort), p.Protocol, x.To, x.From)
	}
}

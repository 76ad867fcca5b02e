package processes

import (
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/windows"
)

// Listening returns the Text of the process that listens on an address,
// host:port, or is in the way of who wants to; "" when that cannot be found out.
// A host that is no address stands for all.
func Listening(address string) string {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return ""
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		addr = netip.IPv4Unspecified()
	}
	all := append(listeners4(tcpTable(windows.AF_INET)), listeners6(tcpTable(windows.AF_INET6))...)
	pid, ok := find(all, netip.AddrPortFrom(addr, uint16(number)))
	if !ok || pid == 0 { // of nobody who could be named
		return ""
	}
	return Describe(pid)
}

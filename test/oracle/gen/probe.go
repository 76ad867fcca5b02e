package gen

import corev1 "k8s.io/api/core/v1"

// Probe is a port to ask about.
type Probe struct {
	Protocol corev1.Protocol
	Port     uint16
}

// rangeLengths are how much later the last port of a range is than the first one.
var rangeLengths = []int32{0, 1, 60}

// Probes draws n ports, some of them equal: those of rules and containers, the ends of ranges, and
// the neighbours of both.
func (g *Gen) Probes(n int) (probes []Probe) {
	for range n {
		number := pick(g, portNumbers, "probe port") + pick(g, []int32{0, 0, 0, 0, -1, 1, 2, 60, 61}, "from it")
		probes = append(probes, Probe{pick(g, protocols, "probe protocol"), uint16(max(min(number, 65535), 1))})
	}
	return probes
}

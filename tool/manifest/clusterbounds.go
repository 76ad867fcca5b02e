package manifest

import "regexp"

// clusterPolicyBounds are those of the CRD of ClusterNetworkPolicy, v0.2.0,
// experimental channel. What it says in CEL is checked in clusterpolicy.go.
var clusterPolicyBounds = &bounds{
	required: []string{"spec"},
	fields: map[string]*bounds{"spec": {
		required: []string{"tier", "priority", "subject"},
		fields: map[string]*bounds{
			"tier":     {words: []string{"Admin", "Baseline"}},
			"priority": {max: 1000},
			"subject":  oneOf([]string{"namespaces", "pods"}, map[string]*bounds{"pods": somePods}),
			"ingress":  {max: mostEntries, items: ruleBounds("from", ingressPeer)},
			"egress":   {max: mostEntries, items: ruleBounds("to", egressPeer)},
		},
	}},
}

// mostEntries is how many entries each list has at most.
const mostEntries = 25

var (
	somePods = &bounds{required: []string{"podSelector"}}

	ingressPeer = oneOf([]string{"namespaces", "pods"}, map[string]*bounds{"pods": somePods})

	egressPeer = oneOf([]string{"namespaces", "pods", "nodes", "networks", "domainNames"}, map[string]*bounds{
		"pods":        somePods,
		"networks":    {min: 1, max: mostEntries, unique: true, items: &bounds{max: 43}},
		"domainNames": {min: 1, max: mostEntries, unique: true, items: &bounds{pattern: domainName, example: "example.com or *.example.com"}},
	})

	// A label begins and ends with a letter or digit, and what else the CRD's range
	// from A to z has. A name has two labels at least, and may end with a dot.
	domainName = regexp.MustCompile(`^(\*\.)?(` + domainLabel + `\.)+` + domainLabel + `\.?$`)
)

const domainLabel = `[a-zA-z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?`

func oneOf(names []string, fields map[string]*bounds) *bounds {
	return &bounds{oneOf: names, fields: fields}
}

// ruleBounds returns those of a rule whose peers are in the field peers.
func ruleBounds(peers string, peer *bounds) *bounds {
	return &bounds{
		required: []string{"action", peers},
		fields: map[string]*bounds{
			"name":      {max: 100},
			"action":    {words: []string{"Accept", "Deny", "Pass"}},
			peers:       {min: 1, max: mostEntries, items: peer},
			"protocols": {min: 1, max: mostEntries, items: protocolBounds},
		},
	}
}

var (
	protocolBounds = oneOf([]string{"tcp", "udp", "sctp", "destinationNamedPort"},
		map[string]*bounds{"tcp": transportBounds, "udp": transportBounds, "sctp": transportBounds})

	transportBounds = oneOf([]string{"destinationPort"}, map[string]*bounds{
		"destinationPort": oneOf([]string{"number", "range"}, map[string]*bounds{
			"number": portBounds,
			"range":  {required: []string{"start", "end"}, fields: map[string]*bounds{"start": portBounds, "end": portBounds}},
		}),
	})

	portBounds = &bounds{min: 1, max: 65535}
)

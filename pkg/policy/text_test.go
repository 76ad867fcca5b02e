package policy_test

import (
	"fmt"
	"strings"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// text writes everything that is in a NetworkPolicy's Policy, one fact a line.
func text(c policy.Policy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy %s\n", c.Key)
	fmt.Fprintf(&b, "subject %s\n", matcherText(c.Subject))
	for _, d := range policy.Directions {
		if c.Isolates[d] {
			fmt.Fprintf(&b, "isolates %s\n", d)
		}
	}
	for _, r := range c.Rules {
		for _, line := range ruleTexts(r) {
			fmt.Fprintln(&b, line)
		}
	}
	setsAndProblems(&b, c.Sets, c.Problems)
	return b.String()
}

func setsAndProblems(b *strings.Builder, sets []policy.SetDef, problems []policy.Problem) {
	for _, s := range sets {
		fmt.Fprintln(b, setText(s))
	}
	for _, p := range problems {
		fmt.Fprintf(b, "problem %s %s: %s\n", p.Reason, p.Field, p.Message)
	}
}

// clusterText writes everything that is in a ClusterNetworkPolicy's Policy, one fact a line.
func clusterText(c policy.Policy) string {
	var b strings.Builder
	name, _ := c.Key.Cluster()
	fmt.Fprintf(&b, "%s %d %s\n", c.Tier, c.Priority, name)
	fmt.Fprintf(&b, "subject %s in namespaces %s\n", matcherText(c.Subject), matcherText(c.Namespaces))
	for _, r := range c.Rules {
		fmt.Fprintln(&b, clusterRuleText(r))
	}
	setsAndProblems(&b, c.Sets, c.Problems)
	return b.String()
}

func clusterRuleText(r policy.Rule) string {
	word := "from"
	if r.Direction == policy.Egress {
		word = "to"
	}
	out := fmt.Sprintf("%s %s[%d] %q %s", r.Action, r.Direction, r.Index, r.Name, word)
	if len(r.Peers) == 0 {
		out += " nobody"
	}
	for i, p := range r.Peers {
		if i > 0 {
			out += ","
		}
		out += " " + peerText(p)
	}
	return out + " ports " + portsText(r.Ports)
}

func matcherText(m policy.LabelMatcher) string {
	if s := fmt.Sprint(m); s != "" {
		return s
	}
	return "everything"
}

// ruleTexts writes a rule of a NetworkPolicy, one line for each peer.
func ruleTexts(r policy.Rule) (out []string) {
	word := "from"
	if r.Direction == policy.Egress {
		word = "to"
	}
	for _, p := range r.Peers {
		out = append(out, fmt.Sprintf("rule %s[%d] %s %s ports %s", r.Direction, r.Index, word, peerText(p), portsText(r.Ports)))
	}
	return out
}

func peerText(p policy.Peer) string {
	switch {
	case len(p.Sets) == 0 && len(p.Blocks) == 0:
		return "everyone"
	case len(p.Sets) > 0 && len(p.Blocks) > 0:
		return "BOTH SETS AND BLOCKS"
	case len(p.Blocks) > 0:
		return join(p.Blocks, " | ")
	}
	return join(p.Sets, " & ")
}

func portsText(ports []policy.Port) string {
	if len(ports) == 0 {
		return "all"
	}
	parts := make([]string, len(ports))
	for i, p := range ports {
		parts[i] = portText(p)
	}
	return strings.Join(parts, ",")
}

func portText(p policy.Port) string {
	switch {
	case p.Name != "" && p.First == 0 && p.Last == 0:
		return fmt.Sprintf("%s/%s", p.Protocol, p.Name)
	case p.Name == "" && p.First == 0 && p.Last == 0:
		return fmt.Sprintf("%s/*", p.Protocol)
	case p.Name == "" && p.First == p.Last:
		return fmt.Sprintf("%s/%d", p.Protocol, p.First)
	case p.Name == "" && p.First < p.Last:
		return fmt.Sprintf("%s/%d-%d", p.Protocol, p.First, p.Last)
	}
	return fmt.Sprintf("BAD PORT %#v", p)
}

func setText(s policy.SetDef) string {
	out := "set " + s.Name.String()
	if s.Pods != nil {
		out += fmt.Sprintf(" = pods %s in namespace %q", matcherText(s.Pods), s.Namespace)
	}
	if s.Namespaces != nil {
		out += " = namespaces " + matcherText(s.Namespaces)
	}
	if s.Nodes != nil {
		out += " = nodes " + matcherText(s.Nodes)
	}
	if s.Blocks != nil {
		out += " = inside " + join(s.Blocks, " | ")
	}
	if s.Members != nil {
		out += " = " + join(s.Members, " | ")
	}
	if s.Name.Kind() == ipsets.KindNamedPort {
		out += " UNEXPECTED KIND"
	}
	return out
}

func join[T fmt.Stringer](list []T, between string) string {
	parts := make([]string, len(list))
	for i, one := range list {
		parts[i] = one.String()
	}
	return strings.Join(parts, between)
}

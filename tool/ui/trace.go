package ui

import (
	"cmp"
	"net/http"

	"github.com/winnpm/winnpm/tool/explain"
)

// trace answers as `kubectl npm trace -o json` does, with sets in words.
func (p *server) trace(s *snapshot, r *http.Request) (any, error) {
	q, err := explain.Parse(r.URL.Query().Get("q"))
	if err != nil {
		return nil, badRequest(err)
	}
	a, err := explain.Explain(s.dump, q, p.cfg.Places)
	if err != nil {
		return nil, badRequest(err) // an end that cannot be asked about
	}
	names := explain.SetNames{}
	for i := range s.dump.Sets {
		names[s.dump.Sets[i].ID] = s.dump.Sets[i].Name
	}
	for _, side := range []*explain.Side{&a.Egress, &a.Ingress} {
		for _, st := range []*explain.State{side.Actual, side.Wanted} {
			if st == nil {
				continue
			}
			word(st.Rules, names)
			word(st.Tried, names)
		}
	}
	return a, nil
}

// word puts the sets of rules and of their conditions into words.
func word(rules []explain.Rule, names explain.SetNames) {
	for i := range rules {
		r := &rules[i]
		r.Words = names.PeerWords(r.ACL) + ", " + explain.PortsText(r.ACL)
		for j := range r.Checks {
			r.Checks[j].What = cmp.Or(explain.SetWords(r.Checks[j].What), r.Checks[j].What)
		}
	}
}

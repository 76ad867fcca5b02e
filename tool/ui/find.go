package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// foundPerKind is how many objects of each kind one search finds.
const foundPerKind = 7

// hit is one object that a search found.
type hit struct {
	Kind string `json:"kind"` // Pod, Workload or Policy
	Name string `json:"name"`
	Also string `json:"also,omitempty"`

	rank int
}

// find searches pods, workloads and policies by name, and by what else is known of
// them: the best of each kind, those first that begin as asked.
func find(s *snapshot, r *http.Request) (any, error) {
	asked := strings.ToLower(strings.TrimSpace(r.URL.Query().Get("q")))
	f := finder{asked: asked, hits: []hit{}}
	for i := range s.dump.Pods {
		f.offer(hit{Kind: "Pod", Name: s.dump.Pods[i].Pod, Also: s.dump.Pods[i].Addr})
	}
	f.next()
	for _, w := range s.workloads().all {
		f.offer(hit{Kind: "Workload", Name: w.Name, Also: pods(w.Pods)})
	}
	f.next()
	for _, p := range policiesOf(&s.dump) {
		f.offer(hit{Kind: "Policy", Name: p.name, Also: p.kindWord()})
	}
	f.next()
	return struct {
		Found []hit `json:"found"`
	}{f.hits}, nil
}

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// finder keeps the best of each kind.
type finder struct {
	asked      string
	kind, hits []hit
}

func (f *finder) offer(h hit) {
	name := strings.ToLower(h.Name)
	last := name[strings.IndexByte(name, '/')+1:]
	switch {
	case name == f.asked || last == f.asked:
		h.rank = 0
	case strings.HasPrefix(name, f.asked) || strings.HasPrefix(last, f.asked):
		h.rank = 1
	case strings.Contains(name, f.asked) || strings.Contains(strings.ToLower(h.Also), f.asked):
		h.rank = 2
	default:
		return
	}
	f.kind = append(f.kind, h)
}

// next ends a kind.
func (f *finder) next() {
	slices.SortStableFunc(f.kind, func(a, b hit) int { return cmp.Compare(a.rank, b.rank) })
	f.hits = append(f.hits, f.kind[:min(len(f.kind), foundPerKind)]...)
	f.kind = nil
}

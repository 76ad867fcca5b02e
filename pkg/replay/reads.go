package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/recorder"
)

// maxLines bounds the particulars of one finding.
const maxLines = 20

// What the signs of particulars mean.
const (
	inHNS   = "+ is only there, - is missing there"
	inBuild = "+ is this build's, - was recorded"
	inDump  = "+ is in the dump, - in this build"
)

// particulars renders a difference, one line each.
func particulars(missing, surplus []string) []string {
	slices.Sort(missing)
	slices.Sort(surplus)
	var lines []string
	for _, v := range surplus {
		lines = append(lines, "+ "+v)
	}
	for _, v := range missing {
		lines = append(lines, "- "+v)
	}
	if more := len(lines) - maxLines; more > 0 {
		lines = append(lines[:maxLines], fmt.Sprintf("… and %d more", more))
	}
	return lines
}

func rules(acls []hns.ACL) []string {
	out := make([]string, len(acls))
	for i, a := range acls {
		out[i] = acl.RuleText(a)
	}
	return out
}

// read answers a read as it was recorded, and brings the world up to date.
func (p *player) read(l *playback, r *recorder.Call) hns.Result {
	if r.Error != nil {
		return hns.Result{Err: p.readFailed(l, r)}
	}
	switch r.Op {
	case hns.OpNetworkGet:
		return hns.Result{Network: p.sawNetwork(l, r)}
	case hns.OpEndpointIDs:
		return hns.Result{IDs: p.enumerated(l, r)}
	case hns.OpEndpointNew: // says nothing of the others
		l.unsure = l.unsure || r.Cut
		return hns.Result{IDs: r.IDs}
	}
	var out hns.Result
	seen := map[string]bool{}
	for _, v := range r.Endpoints {
		out.Endpoint = p.sawEndpoint(l, r, v)
		seen[v.ID] = true
	}
	if r.Op == hns.OpEndpointList { // of an older build: these are all
		p.lacks(l, seen)
	}
	return out
}

// enumerated notes which endpoints there are, and returns their GUIDs. When there were too
// many to be recorded, it returns those of the world. If these are not the recorded ones,
// what follows is no difference.
func (p *player) enumerated(l *playback, r *recorder.Call) []string {
	w := p.world
	if r.Cut {
		ids := w.ids()
		l.unsure = l.unsure || len(ids) != r.Count || recorder.DigestValues(ids) != r.Digest
		return ids
	}
	seen := map[string]bool{}
	var moved []subject
	for _, id := range r.IDs {
		seen[id] = true
		if _, ours := w.endpoints[id]; !ours {
			w.strange[id] = true
		} else if w.absent[id] {
			delete(w.absent, id)
			l.out.Others++
			moved = append(moved, subject{endpoint: id})
		}
	}
	maps.DeleteFunc(w.strange, func(id string, _ bool) bool { return !seen[id] })
	maps.DeleteFunc(p.unreadYet, func(id string, _ bool) bool { return !seen[id] })
	w.sync(moved)
	p.lacks(l, seen)
	return r.IDs
}

// readFailed brings the world up to date after a read that failed. An endpoint that is
// gone, or belongs to somebody else by now, is the CNI's doing.
func (p *player) readFailed(l *playback, r *recorder.Call) error {
	err := rebuilt(r.Error)
	if r.Op == hns.OpEndpointGet && hns.EndpointGone(err) {
		p.gone(l, r.Endpoint)
		return err
	}
	if r.Op == hns.OpEndpointGet && errors.Is(err, hns.ErrElsewhere) {
		p.gone(l, r.Endpoint)
		p.world.strange[r.Endpoint] = true
		return err
	}
	p.unread(l, r)
	return err
}

// unread adds the finding that a read failed.
func (p *player) unread(l *playback, r *recorder.Call) {
	p.found(l, r, Finding{Kind: Answer, Object: r.Endpoint, Text: fmt.Sprintf("HNS answered %q; the simulator would have read it", r.Error.Message)})
}

// gone removes an endpoint from the world.
func (p *player) gone(l *playback, id string) {
	s := subject{endpoint: id}
	if _, there := p.world.endpoints[id]; there {
		l.out.Others++
	}
	delete(p.world.endpoints, id)
	delete(p.world.absent, id)
	delete(p.world.strange, id)
	delete(p.unreadYet, id)
	p.world.settled(s)
	p.world.sync([]subject{s})
}

// lacks notes the endpoints that a listing or an enumeration lacks: they are not attached.
func (p *player) lacks(l *playback, seen map[string]bool) {
	var moved []subject
	for _, id := range sorted(p.world.endpoints) {
		if !seen[id] && !p.world.absent[id] {
			p.world.absent[id] = true
			l.out.Others++
			moved = append(moved, subject{endpoint: id})
		}
	}
	p.world.sync(moved)
}

// settled forgets the doubts about a subject that was read.
func (w *world) settled(s subject) {
	delete(w.vague, s)
	delete(w.doubts, s)
	delete(w.crowded, s)
	if s.endpoint != "" {
		delete(w.partial, s.endpoint)
	}
}

// sawNetwork compares the world with a network that was read, and brings it up to date.
func (p *player) sawNetwork(l *playback, r *recorder.Call) hns.Network {
	w := p.world
	w.network = hns.Network{ID: r.Network.ID, Name: r.Network.Name}
	out := w.network
	seen := map[string]bool{}
	var moved []subject
	for _, v := range r.Network.Sets {
		s := subject{set: v.ID}
		was, there := w.sets[v.ID]
		is, kept := w.setOf(v)
		seen[v.ID] = true
		out.Sets = append(out.Sets, is)
		if there && sameSet(was, is) {
			w.settled(s)
			continue
		}
		if ours := strings.HasPrefix(v.ID, hns.SetIDPrefix); ours && p.overlapped(s, r) && sameSet(w.wrote[s].set, is) {
			continue
		} else if ours && w.setsRead {
			p.setDiffers(l, r, was, is, kept)
		}
		w.sets[v.ID] = is
		w.settled(s)
		moved = append(moved, s)
	}
	for _, id := range sorted(w.sets) {
		s := subject{set: id}
		if seen[id] || p.overlapped(s, r) && w.wrote[s].set.Type == "" {
			continue
		}
		if strings.HasPrefix(id, hns.SetIDPrefix) {
			p.setDiffers(l, r, w.sets[id], hns.SetPolicy{}, true)
		}
		delete(w.sets, id)
		w.settled(s)
		moved = append(moved, s)
	}
	for _, s := range slices.Concat(slices.Collect(maps.Keys(w.vague)), slices.Collect(maps.Keys(w.doubts)), slices.Collect(maps.Keys(w.crowded))) {
		if s.set != "" && !seen[s.set] && !p.overlapped(s, r) { // it is not there, and never was
			w.settled(s)
		}
	}
	w.setsRead = true
	w.sync(moved)
	return out
}

// overlapped reports whether a read began before the last write of a subject had
// ended: then it may show what was there before.
func (p *player) overlapped(s subject, r *recorder.Call) bool {
	return r.Began.Before(p.world.wrote[s].end)
}

// setOf returns a set as it was read. If its values were too many to be recorded, it
// returns those that the world has when their digest is the same. Otherwise nobody knows
// the values: they are others than the world has, and kept is false.
func (w *world) setOf(v recorder.SetValue) (s hns.SetPolicy, kept bool) {
	s = hns.SetPolicy{ID: v.ID, Name: v.Name, Type: v.Type, Values: v.Values}
	if v.Values != nil || v.Count == 0 {
		return s, true
	}
	was := w.sets[v.ID].Values
	if len(was) == v.Count && recorder.DigestValues(was) == v.Digest {
		s.Values = was
		return s, true
	}
	if len(was) > 0 {
		s.Values = slices.Clone(was[:len(was)-1])
	}
	return s, false
}

// setDiffers adds the finding that a set is not what our writes imply, unless something
// explains it. A Type of "" is a set that is not there.
func (p *player) setDiffers(l *playback, r *recorder.Call, was, is hns.SetPolicy, kept bool) {
	id, name := was.ID, was.Name
	if id == "" {
		id, name = is.ID, is.Name
	}
	s := subject{set: id}
	if p.world.vague[s] || p.crowded(l, r, s, name) {
		return
	}
	for _, d := range p.world.doubts[s] {
		if d.set.Type == "" && is.Type == "" || sameSet(d.set, is) {
			p.found(l, r, Finding{Kind: Note, Object: name, Text: fmt.Sprintf("set %s: the write that failed at step %d, call %d, had been done", name, d.step, d.call)})
			return
		}
	}
	f := Finding{Kind: State, Object: name}
	missing, surplus := difference(was.Values, is.Values)
	switch {
	case is.Type == "":
		f.Text = fmt.Sprintf("HNS has no set %s, which our writes made: somebody else removed it, or HNS lost it", name)
	case was.Type == "":
		f.Text = fmt.Sprintf("HNS has set %s with %s, which our writes did not make, or removed: somebody else made it, or HNS did not remove it",
			name, count(len(is.Values), "member"))
	case was.Type != is.Type || was.Name != is.Name:
		f.Text = fmt.Sprintf("HNS has set %s as %s %s, our writes made it as %s: somebody else made it anew", name, is.Type, is.Name, was.Type)
	case !kept:
		f.Text = fmt.Sprintf("set %s in HNS is not what our writes imply: somebody else wrote it, or HNS lost some of it; its members were too many to be kept", name)
	default:
		f.Text = fmt.Sprintf("set %s in HNS is not what our writes imply: somebody else wrote it, or HNS lost some of it", name)
		f.Legend, f.Lines = inHNS, particulars(missing, surplus)
	}
	p.found(l, r, f)
}

// sawEndpoint compares the world with an endpoint that was read, and brings it up to date.
func (p *player) sawEndpoint(l *playback, r *recorder.Call, v recorder.EndpointValue) hns.Endpoint {
	w := p.world
	s := subject{endpoint: v.ID}
	was, there := w.endpoints[v.ID]
	is, kept := w.endpointOf(v)
	if there && was.Version() == is.Version() && !w.absent[v.ID] {
		w.settled(s)
		return is
	}
	ours, foreign := was.Split()
	oursNow, foreignNow := is.Split()
	switch {
	case !there:
		l.out.Others++
	case !same(ours, oursNow):
		if before, _ := w.wrote[s].before.Split(); p.overlapped(s, r) && same(before, oursNow) {
			return is
		}
		p.rulesDiffer(l, r, s, ours, oursNow, kept)
	}
	if there && !w.partial[v.ID] && (w.absent[v.ID] || !samePolicies(foreign, foreignNow) || !slices.Equal(was.Addrs, is.Addrs)) {
		l.out.Others++
	}
	w.endpoints[v.ID] = is
	delete(w.strange, v.ID)
	delete(p.unreadYet, v.ID)
	if r.Op == hns.OpEndpointList { // in another state it can be read, too
		delete(w.absent, v.ID)
	}
	w.settled(s)
	w.sync([]subject{s})
	return is
}

// endpointOf returns an endpoint as it was read; see setOf.
func (w *world) endpointOf(v recorder.EndpointValue) (e hns.Endpoint, kept bool) {
	e = hns.Endpoint{ID: v.ID, Addrs: v.Addrs, Netns: v.Netns, Policies: v.Policies}
	if v.Policies != nil || v.Count == 0 {
		if w.versions[v.ID] == nil {
			w.versions[v.ID] = map[hns.Version]hns.Endpoint{}
		}
		w.versions[v.ID][v.Version] = e
		return e, true
	}
	was := w.endpoints[v.ID]
	if was.Version() == v.Version {
		was.Netns = v.Netns
		return was, true
	}
	if seen, ok := w.versions[v.ID][v.Version]; ok {
		seen.Netns = v.Netns
		return seen, true
	}
	ours, foreign := was.Split()
	e.Policies = foreign
	for i, a := range ours {
		if i > 0 {
			e.Policies = append(e.Policies, hns.NewACLPolicy(a))
		}
	}
	return e, false
}

// crowded reports whether so many writes failed that nobody says what they may have led to, and
// notes it.
func (p *player) crowded(l *playback, r *recorder.Call, s subject, name string) bool {
	if p.world.crowded[s] {
		p.found(l, r, Finding{Kind: Note, Object: name, Text: fmt.Sprintf("%s is not compared: more than %d writes of it had failed and may have been done", name, mostDoubts)})
	}
	return p.world.crowded[s]
}

// rulesDiffer adds the finding that our rules on an endpoint are not what our writes imply,
// unless something explains it.
func (p *player) rulesDiffer(l *playback, r *recorder.Call, s subject, was, is []hns.ACL, kept bool) {
	if p.world.vague[s] || p.crowded(l, r, s, s.endpoint) {
		return
	}
	may := slices.Clone(was) // what all of them may have led to
	for _, d := range p.world.doubts[s] {
		how := ""
		_, added := difference(was, d.rules)
		may = append(may, added...)
		if same(d.rules, is) {
			how = "had been done"
		} else if _, other := difference(slices.Concat(was, d.rules), is); len(other) == 0 {
			how = "had been done in part"
		}
		if how != "" {
			p.found(l, r, Finding{Kind: Note, Object: s.endpoint, Text: fmt.Sprintf("endpoint %s: the write that failed at step %d, call %d, %s", s.endpoint, d.step, d.call, how)})
			return
		}
	}
	if _, other := difference(may, is); len(p.world.doubts[s]) > 1 && len(other) == 0 {
		p.found(l, r, Finding{Kind: Note, Object: s.endpoint, Text: fmt.Sprintf("endpoint %s: of the %s that failed more than one had been done", s.endpoint, count(len(p.world.doubts[s]), "write"))})
		return
	}
	f := Finding{Kind: State, Object: s.endpoint, Text: fmt.Sprintf("our rules on endpoint %s are not what our writes imply: somebody else wrote them, or HNS lost some", s.endpoint)}
	if kept {
		missing, surplus := difference(was, is)
		f.Legend, f.Lines = inHNS, particulars(rules(missing), rules(surplus))
	} else {
		f.Text += "; they were too many to be kept"
	}
	p.found(l, r, f)
}

// count is "1 set", "2 sets".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "y") {
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

package hostile

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hostile/cluster"
)

// mostOfASearch is how many bytes an attack of the search has: what is worse
// by its size alone the floods have.
const mostOfASearch = 150_000

// attempts is how many attacks TestSearch plays: in make hostile as many as the
// command line says, others each time.
func attempts() (n int, seed uint64) {
	if effort.Now() == effort.Full {
		return flag.Lookup("rapid.checks").Value.(flag.Getter).Get().(int), rand.Uint64()
	}
	return effort.Of(1, 3, 16), 1
}

// sizes draws small numbers, and now and then a large one.
func sizes(most int) *rapid.Generator[int] {
	return rapid.Custom(func(t *rapid.T) int {
		return rapid.SampledFrom([]int{0, 1, 2, 7, most / 100, most / 10, most / 3, most}).Draw(t, "size")
	})
}

// genes draws one gene of an attack.
func genes() *rapid.Generator[cluster.Gene] {
	roles := rapid.SampledFrom([]string{"nobody", "db", "web", ""})
	words := func(t *rapid.T, all []string, most int) map[string]int {
		out := map[string]int{}
		for range rapid.IntRange(0, 2).Draw(t, "words") {
			out[rapid.SampledFrom(all).Draw(t, "word")] = sizes(most).Draw(t, "n")
		}
		return out
	}
	return rapid.Custom(func(t *rapid.T) cluster.Gene {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return cluster.Gene{Labels: sizes(300).Draw(t, "labels")}
		case 1, 2, 3:
			return cluster.Gene{Pods: &cluster.PodsGene{
				N: rapid.SampledFrom([]int{1, 5, 50, 200}).Draw(t, "pods"), Labels: sizes(1000).Draw(t, "labels"), Ports: sizes(1000).Draw(t, "ports"),
				Role: roles.Draw(t, "role"), Addr: rapid.SampledFrom(cluster.AddrWords).Draw(t, "addr"),
				Local: rapid.Bool().Draw(t, "local"), Future: rapid.Bool().Draw(t, "future"),
			}}
		}
		return cluster.Gene{Policy: &cluster.PolicyGene{
			Role: roles.Draw(t, "role"), Egress: rapid.Bool().Draw(t, "egress"), Rules: rapid.SampledFrom([]int{1, 1, 2, 10, 100}).Draw(t, "rules"),
			Peers: words(t, cluster.PeerWords, 2000), Ports: words(t, cluster.PortWords, 5000),
			Same: rapid.IntRange(1, 2).Draw(t, "same"), Excepts: sizes(300).Draw(t, "excepts"),
		}}
	})
}

// genome is an attack that can be changed.
type genome []cluster.Gene

func (g genome) String() string {
	var out []string
	for _, gene := range g {
		out = append(out, gene.String())
	}
	return strings.Join(out, " ")
}

// attack returns the objects; false when they are too large.
func (g genome) attack(n int) (cluster.Attack, bool) {
	a := cluster.Attack{Name: fmt.Sprintf("attempt %d", n)}
	for i, gene := range g {
		a.Objects = append(a.Objects, gene.Objects(fmt.Sprintf("a%d-g%d", n, i))...)
	}
	return a, len(a.Objects) <= 1000 && a.Bytes() <= mostOfASearch
}

// changed returns the genome with one gene more, less, or another one.
func (g genome) changed(r *rand.Rand) genome {
	fresh := genes().Example(int(r.Int32()))
	out := slices.Clone(g)
	switch at := r.IntN(len(g) + 1); {
	case at == len(g) && len(g) < 5:
		return append(out, fresh)
	case at < len(g) && len(g) > 1 && r.IntN(3) == 0:
		return slices.Delete(out, at, at+1)
	default:
		out[min(at, len(g)-1)] = fresh
		return out
	}
}

// goals are what the search makes as large as it can, for each byte of an attack, as
// a part of what there may be.
var goals = map[string]func(c cost) float64{
	"memory":   func(c cost) float64 { return float64(c.heap) / mostHeap },
	"CPU":      func(c cost) float64 { return float64(c.cpu) / float64(constantCPU) },
	"requests": func(c cost) float64 { return float64(c.calls) / mostCalls },
}

// TestSearch looks for attacks that are worse than those that somebody thought of: it
// changes the worst one so far for each goal, and plays the new one in the same
// cluster. None may cost more than the bounds, and what it cost has to come back.
func TestSearch(t *testing.T) {
	n, seed := attempts()
	t.Logf("%d attempts, seed %d", n, seed)
	endless(t, longestAttack+time.Duration(n)*20*time.Second)
	w := newWaiter()
	defer w.end()
	r := rand.New(rand.NewPCG(seed, seed))
	type best struct {
		genome
		score float64
		row   string
	}
	worst, names := map[string]best{}, slices.Sorted(maps.Keys(goals))
	var costs []cost
	var played []genome
	inBubble(t, func(a *agent) {
		for i := 0; i < n; {
			goal := names[r.IntN(len(names))]
			g := genome{genes().Example(int(r.Int32()))}
			if was, ok := worst[goal]; ok && r.IntN(3) > 0 {
				g = was.changed(r)
			}
			attack, fits := g.attack(i)
			if !fits {
				continue
			}
			i++
			t.Logf("attempt %d: %v", i, g) // before, as it may be the last one
			c := a.suffer(w, attack, i)
			costs, played = append(costs, c), append(played, g)
			for name, part := range goals {
				// Some kilobytes more do not make an attack dearer to write.
				if score := part(c) / float64(c.bytes+5000); score > worst[name].score {
					worst[name] = best{g, score, c.String()}
				}
			}
		}
	})
	for _, name := range names {
		t.Logf("the worst for %s:\n%s\n%s\n%s", name, worst[name].genome, tableHead, worst[name].row)
	}
	for i, c := range costs {
		t.Run(c.name, func(t *testing.T) {
			c.check(t)
			if t.Failed() {
				t.Logf("%v\n%s\n%s", played[i], tableHead, c)
			}
		})
	}
}

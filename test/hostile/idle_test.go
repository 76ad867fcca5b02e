package hostile

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hostile/cluster"
)

// TestPoliciesThatSelectNothing: the owner of a misspelt policy is told of it within minutes, also
// beside a tenant who writes thousands of them, who gets a bounded number of Events. A policy
// whose pods come after it is none.
func TestPoliciesThatSelectNothing(t *testing.T) {
	endless(t, longestAttack)
	w := newWaiter()
	defer w.end()
	inBubble(t, func(a *agent) {
		typo, folder := policy.Key{Namespace: cluster.Victim, Name: "typo"}, policy.Key{Namespace: cluster.Victim, Name: "folder"}
		require.Zero(t, a.idleTold(), "every policy of the honest has its pods")
		var many []cluster.Object
		for i := range effort.Of(100, 1000, 1000) {
			many = append(many, cluster.Selects(cluster.Tenant, fmt.Sprintf("none-%d", i), "none"))
		}
		began := time.Now()
		a.server.Put(many...)
		a.server.Put(cluster.Selects(typo.Namespace, typo.Name, "wbe"), cluster.Selects(folder.Namespace, folder.Name, "new"))
		a.rest(30 * time.Second)
		a.server.Put(cluster.Pod{Namespace: folder.Namespace, Name: "new-0", Addr: "10.78.0.1", Labels: map[string]string{"role": "new"}}.Object())
		a.rest(10 * time.Minute)
		require.False(t, a.toldOf(typo).IsZero())
		require.Greater(t, a.toldOf(typo).Sub(began), time.Minute)
		require.Less(t, a.toldOf(typo).Sub(began), 3*time.Minute)
		require.True(t, a.toldOf(folder).IsZero())
		require.Equal(t, 64+1, a.idleTold())
		a.rest(time.Duration(effort.Of(5, 70, 70)) * time.Minute) // other Events would come again
		require.Equal(t, 64+1, a.idleTold(), "each once")
	})
}

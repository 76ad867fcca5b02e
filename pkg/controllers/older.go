package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/state"
)

// olderVersion is the version of the API before ClusterNetworkPolicy. Nothing of it is
// programmed.
var olderVersion = schema.GroupVersion{Group: v1alpha2.GroupName, Version: "v1alpha1"}

// olderKinds are the kinds of that version, by what paths call them.
var olderKinds = []struct{ resource, kind, tier string }{
	{"adminnetworkpolicies", "AdminNetworkPolicy", string(v1alpha2.AdminTier)},
	{"baselineadminnetworkpolicies", "BaselineAdminNetworkPolicy", string(v1alpha2.BaselineTier)},
}

// lookForOlder is how often they are looked for; it is up to a fifth more.
const lookForOlder = time.Hour

// olderPolicies returns what finds out whether a cluster has such objects. It lists one of
// each kind, as no more than its name. A server without the kind has none, and one that
// does not let us list it is not asked twice in a round: nobody needs the right.
func olderPolicies(cfg *rest.Config) func(context.Context) []state.Warning {
	return func(ctx context.Context) []state.Warning {
		c, err := Client(cfg, olderVersion, func(scheme *runtime.Scheme) error {
			metav1.AddToGroupVersion(scheme, olderVersion)
			return nil
		})
		if err != nil {
			return nil
		}
		var out []state.Warning
		for _, k := range olderKinds {
			body, err := c.Get().Resource(k.resource).Param("limit", "1").
				SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").DoRaw(ctx)
			if err != nil {
				continue
			}
			var list metav1.PartialObjectMetadataList
			if json.Unmarshal(body, &list) != nil || len(list.Items) == 0 {
				continue
			}
			out = append(out, state.Warning{
				Object: list.Items[0].Name, Kind: k.kind, Reason: reasonNotEnforced,
				Message: fmt.Sprintf("policies of %s are not programmed on this node, make a ClusterNetworkPolicy (%s) of tier %s of each", olderVersion, v1alpha2.GroupVersion, k.tier),
			})
		}
		return out
	}
}

// reasonNotEnforced is that of policies of which nothing is programmed.
const reasonNotEnforced state.Reason = "NotEnforced"

// findOlder looks for policies of older versions until ctx is done. Each kind is logged
// when it is found first, and is among the notes while there are such objects.
func (c *Controller) findOlder(ctx context.Context) {
	told := map[string]bool{}
	for {
		asking, done := context.WithTimeout(ctx, askAgain)
		found := c.cfg.Source.Older(asking)
		done()
		c.status.setOlder(found)
		for _, w := range found {
			if !told[w.Kind] {
				told[w.Kind] = true
				c.cfg.Logger.Info("warning raised", "kind", w.Kind, "object", w.Object, "reason", w.Reason, "message", w.Message)
			}
		}
		wait := time.NewTimer(lookForOlder + rand.N(lookForOlder/5))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

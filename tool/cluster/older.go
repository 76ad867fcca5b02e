package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/manifest"
)

// olderVersion is the API version before ClusterNetworkPolicy. WinNPM does not enforce its policies.
var olderVersion = schema.GroupVersion{Group: v1alpha2.GroupName, Version: "v1alpha1"}

// olderKinds are the policy kinds of olderVersion, with the tier that replaces each.
var olderKinds = []struct{ resource, kind, tier string }{
	{"adminnetworkpolicies", "AdminNetworkPolicy", string(v1alpha2.AdminTier)},
	{"baselineadminnetworkpolicies", "BaselineAdminNetworkPolicy", string(v1alpha2.BaselineTier)},
}

// olderPolicies returns a warning for each older kind of which the cluster has an object, and names one
// object. A kind that is missing or forbidden yields no warning.
func olderPolicies(ctx context.Context, cfg *rest.Config) (out []state.Warning) {
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil
	}
	for _, k := range olderKinds {
		list, err := client.Resource(olderVersion.WithResource(k.resource)).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil || len(list.Items) == 0 {
			continue
		}
		out = append(out, state.Warning{
			Object: list.Items[0].Name, Kind: k.kind, Reason: manifest.NotEnforced,
			Message: fmt.Sprintf("policies of %s are not programmed on this node, make a ClusterNetworkPolicy (%s) of tier %s of each", olderVersion, v1alpha2.GroupVersion, k.tier),
		})
	}
	return out
}

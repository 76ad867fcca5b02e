package simulate

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/manifest"
)

// olderVersion is the version of the API before ClusterNetworkPolicy. Nothing of it is
// programmed.
var olderVersion = schema.GroupVersion{Group: v1alpha2.GroupName, Version: "v1alpha1"}

// olderKinds are the kinds of that version, by what paths call them.
var olderKinds = []struct{ resource, kind, tier string }{
	{"adminnetworkpolicies", "AdminNetworkPolicy", string(v1alpha2.AdminTier)},
	{"baselineadminnetworkpolicies", "BaselineAdminNetworkPolicy", string(v1alpha2.BaselineTier)},
}

// olderPolicies returns a function that warns of each kind that the cluster has. It lists the name
// of one object of each kind. A kind that is missing or forbidden yields no warning.
func olderPolicies(cfg *rest.Config) func(context.Context) []state.Warning {
	return func(ctx context.Context) []state.Warning {
		c, err := controllers.Client(cfg, olderVersion, func(scheme *runtime.Scheme) error {
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
				Object: list.Items[0].Name, Kind: k.kind, Reason: state.Reason(manifest.NotEnforced),
				Message: fmt.Sprintf("policies of %s are not programmed on this node, make a ClusterNetworkPolicy (%s) of tier %s of each", olderVersion, v1alpha2.GroupVersion, k.tier),
			})
		}
		return out
	}
}

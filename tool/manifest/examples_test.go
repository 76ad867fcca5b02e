package manifest_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/tool/manifest"
)

const examples = "../../examples"

func loadExample(t *testing.T, name string, o manifest.Options) manifest.Objects {
	t.Helper()
	objects, warnings, err := manifest.Load([]string{filepath.Join(examples, name)}, o)
	require.NoError(t, err)
	require.Empty(t, warnings)
	return objects
}

func TestExampleShop(t *testing.T) {
	o := loadExample(t, "shop", manifest.Options{Node: "win-1"})
	require.Empty(t, cmp.Diff([]string{
		"ingress/gateway-0@lin-1",
		"kube-system/coredns-0@lin-1",
		"kube-system/coredns-1@lin-1",
		"monitoring/agent-0@win-1",
		"monitoring/prometheus-0@lin-1",
		"payments/card-0@win-1",
		"payments/ledger-0@win-1",
		"sandbox/toolbox@win-1",
		"shop/api-0@win-1",
		"shop/api-next-0@win-1",
		"shop/cache-0@win-1",
		"shop/cart-0@win-1",
		"shop/db-0@win-1",
		"shop/migrate-schema@",
		"shop/report-0@win-1",
		"shop/storefront-0@win-1",
		"shop/storefront-1@win-1",
		"shop/worker-0@win-1",
	}, podNames(o.Pods)))
	require.Equal(t, []string{"ingress", "kube-system", "monitoring", "payments", "sandbox", "shop"}, namespaceNames(o))
}

// The example shows every feature that can be expressed.
func TestExampleShopUsesEveryFeature(t *testing.T) {
	used := map[string]int{}
	for _, np := range loadExample(t, "shop", manifest.Options{}).Policies {
		countPolicy(used, np)
	}
	for _, want := range []string{
		"subject: every pod", "subject: label", "subject: Exists",
		"types: [Ingress]", "types: [Egress]", "types: [Ingress Egress]",
		"ingress: deny", "egress: deny", "ingress: everyone", "egress: every port",
		"ingress pods: every pod", "ingress pods: label", "ingress pods: Exists", "ingress pods: NotIn", "ingress pods: DoesNotExist", "egress pods: In",
		"ingress namespaces: every pod", "ingress namespaces: label", "ingress namespaces: In", "ingress namespaces: NotIn",
		"egress namespaces: Exists", "egress namespaces: DoesNotExist",
		"ingress both selectors", "egress both selectors",
		"ingress ipBlock except", "egress ipBlock except", "egress ipBlock",
		"ingress TCP number", "ingress TCP name", "ingress TCP range", "ingress TCP any", "ingress SCTP name", "ingress UDP name",
		"egress TCP number", "egress TCP name", "egress TCP range", "egress TCP any", "egress SCTP number", "egress UDP number",
		"egress ipBlock with a named port",
	} {
		require.Positive(t, used[want], "%s; the example has %v", want, used)
	}
}

func countPolicy(used map[string]int, np *networkingv1.NetworkPolicy) {
	count := func(s string) { used[s]++ }
	countSelector(used, "subject", &np.Spec.PodSelector)
	types := "types: ["
	for i, pt := range np.Spec.PolicyTypes {
		if i > 0 {
			types += " "
		}
		types += string(pt)
		if (pt == networkingv1.PolicyTypeIngress && len(np.Spec.Ingress) == 0) || (pt == networkingv1.PolicyTypeEgress && len(np.Spec.Egress) == 0) {
			count(map[networkingv1.PolicyType]string{"Ingress": "ingress", "Egress": "egress"}[pt] + ": deny")
		}
	}
	count(types + "]")
	for _, r := range np.Spec.Ingress {
		countRule(used, "ingress", r.From, r.Ports)
	}
	for _, r := range np.Spec.Egress {
		countRule(used, "egress", r.To, r.Ports)
	}
}

func countRule(used map[string]int, dir string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) {
	if len(peers) == 0 {
		used[dir+": everyone"]++
	}
	if len(ports) == 0 {
		used[dir+": every port"]++
	}
	named := false
	for _, p := range ports {
		form := "number"
		switch {
		case p.Port == nil:
			form = "any"
		case p.Port.Type == intstr.String:
			form, named = "name", true
		case p.EndPort != nil:
			form = "range"
		}
		used[dir+" "+string(*p.Protocol)+" "+form]++
	}
	for _, p := range peers {
		if p.PodSelector != nil {
			countSelector(used, dir+" pods", p.PodSelector)
		}
		if p.NamespaceSelector != nil {
			countSelector(used, dir+" namespaces", p.NamespaceSelector)
		}
		if p.PodSelector != nil && p.NamespaceSelector != nil {
			used[dir+" both selectors"]++
		}
		if p.IPBlock != nil && len(p.IPBlock.Except) > 0 {
			used[dir+" ipBlock except"]++
		} else if p.IPBlock != nil {
			used[dir+" ipBlock"]++
		}
		if p.IPBlock != nil && named {
			used[dir+" ipBlock with a named port"]++
		}
	}
}

func countSelector(used map[string]int, what string, s *metav1.LabelSelector) {
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		used[what+": every pod"]++
	}
	if len(s.MatchLabels) > 0 {
		used[what+": label"]++
	}
	for _, e := range s.MatchExpressions {
		used[what+": "+string(e.Operator)]++
	}
}

// Pods that a policy calls by one port name have different numbers for it.
func TestExampleShopPortNamesDiffer(t *testing.T) {
	numbers := map[string]map[int32]bool{"http": {}, "metrics": {}}
	for _, pod := range loadExample(t, "shop", manifest.Options{}).Pods {
		if pod.Namespace != "shop" || pod.Labels["app"] != "api" || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		for _, p := range pod.Spec.Containers[0].Ports {
			numbers[p.Name][p.ContainerPort] = true
		}
	}
	require.Equal(t, map[string]map[int32]bool{"http": {80: true, 8080: true}, "metrics": {9100: true, 9200: true}}, numbers)
}

func TestExampleLimits(t *testing.T) {
	o := loadExample(t, "limits", manifest.Options{})
	require.Equal(t, []string{"limits/client@", "limits/server@"}, podNames(o.Pods))
	require.Len(t, o.Policies, 2)
}

// The example has both tiers and every action, besides NetworkPolicies.
func TestExampleTiers(t *testing.T) {
	o := loadExample(t, "tiers", manifest.Options{})
	require.Equal(t, []string{"lab/board@", "lab/notebook@", "monitoring/scraper@", "shop/db@", "shop/web@"}, podNames(o.Pods))
	require.Len(t, o.Policies, 3)
	used := map[string]int{}
	for _, p := range o.ClusterPolicies {
		for _, r := range p.Spec.Ingress {
			used[string(p.Spec.Tier)+" "+string(r.Action)]++
		}
	}
	require.Equal(t, map[string]int{"Admin Accept": 1, "Admin Pass": 1, "Admin Deny": 1, "Baseline Accept": 1, "Baseline Deny": 1}, used)
}

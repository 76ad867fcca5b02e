package e2e

import (
	"net/url"
	"testing"

	"github.com/winnpm/winnpm/test/servers"
)

// Verdicts follow every kind of change of every kind of object.
func TestVerdictsFollowObjects(t *testing.T) {
	w := newWorld(t)
	w.node("e2e-1", "192.168.0.1")
	w.namespace("shop", "team=shop")
	w.namespace("bank", "team=bank")
	web := pod{namespace: "shop", name: "web", node: "e2e-1", ip: "10.10.0.1", labels: "app=web", ports: "http=8080"}
	w.pod(web)
	w.pod(pod{namespace: "shop", name: "db", node: "e2e-1", ip: "10.10.0.2", labels: "app=db"})
	till := pod{namespace: "bank", name: "till", node: "e2e-1", ip: "10.10.0.3", labels: "app=till"}
	w.pod(till)
	w.pod(pod{namespace: "bank", name: "far", node: "e2e-2", ip: "10.10.0.4", labels: "app=far"})
	pods := []string{"shop/web", "shop/db", "bank/till", "bank/far"}

	a := startAgent(t, "e2e-1", agentKubeconfig(t))
	a.elsewhere = []string{"bank/far"}
	a.waitMatrix("8080/TCP", pods, ``)

	t.Log("a policy with a named port")
	w.policy("shop", "web-in", `
podSelector: {matchLabels: {app: web}}
ingress:
- from: [{podSelector: {matchLabels: {app: db}}}]
  ports: [{port: http}]
`)
	a.waitMatrix("8080/TCP", pods, `
		bank/till | shop/web shop/web-in
		bank/far | shop/web shop/web-in
	`)
	a.waitTrace(`
		shop/db->shop/web:8080/TCP allow
		shop/db->shop/web:80/TCP deny
		shop/db->shop/web:8080/UDP deny
		192.168.0.1->shop/web:80/TCP allow
	`)

	t.Log("the policy edited")
	w.policy("shop", "web-in", `
podSelector: {matchLabels: {app: web}}
ingress:
- from: [{namespaceSelector: {matchExpressions: [{key: team, operator: In, values: [bank, mint]}]}}]
`)
	a.waitMatrix("8080/TCP", pods, `shop/db | shop/web shop/web-in`)

	t.Log("the namespace relabelled, out of the peers and back")
	w.relabelNamespace("bank", "team=none")
	a.waitMatrix("8080/TCP", pods, `
		shop/db | shop/web shop/web-in
		bank/till | shop/web shop/web-in
		bank/far | shop/web shop/web-in
	`)
	w.relabelNamespace("bank", "team=mint")
	a.waitMatrix("8080/TCP", pods, `shop/db | shop/web shop/web-in`)

	t.Log("a peer relabelled, into the peers and out again")
	w.policy("shop", "web-in", `
podSelector: {matchLabels: {app: web}}
ingress:
- from:
  - namespaceSelector: {matchLabels: {team: mint}}
    podSelector: {matchLabels: {app: till}}
`)
	a.waitMatrix("8080/TCP", pods, `
		shop/db | shop/web shop/web-in
		bank/far | shop/web shop/web-in
	`)
	w.relabelPod("bank", "far", "app=till")
	a.waitMatrix("8080/TCP", pods, `shop/db | shop/web shop/web-in`)
	w.relabelPod("bank", "far", "app=far")
	a.waitMatrix("8080/TCP", pods, `
		shop/db | shop/web shop/web-in
		bank/far | shop/web shop/web-in
	`)

	t.Log("the selected pod relabelled, out of the policy and back")
	w.relabelPod("shop", "web", "app=other")
	a.waitMatrix("8080/TCP", pods, ``)
	w.relabelPod("shop", "web", "app=web")
	a.waitMatrix("8080/TCP", pods, `
		shop/db | shop/web shop/web-in
		bank/far | shop/web shop/web-in
	`)

	t.Log("a pod deleted, and another one made with its name and address")
	w.finishPod("bank", "till") // else its address is kept while its containers may run
	w.deletePod("bank", "till")
	a.waitMatrix("8080/TCP", []string{"shop/web", "shop/db", "bank/far"}, `
		shop/db | shop/web shop/web-in
		bank/far | shop/web shop/web-in
	`)
	stranger := till
	stranger.labels = "app=stranger"
	w.pod(stranger)
	a.waitMatrix("8080/TCP", pods, `
		shop/db | shop/web shop/web-in
		bank/till | shop/web shop/web-in
		bank/far | shop/web shop/web-in
	`)
	w.finishPod("bank", "till") // else its address is kept while its containers may run
	w.deletePod("bank", "till")
	till.ip = "10.10.0.9"
	w.pod(till)
	a.waitMatrix("8080/TCP", pods, `
		shop/db | shop/web shop/web-in
		bank/far | shop/web shop/web-in
	`)

	t.Log("a pod finished, and its address given to another one")
	w.finishPod("bank", "till")
	w.pod(pod{namespace: "bank", name: "late", node: "e2e-1", ip: till.ip, labels: "app=late"})
	pods[2] = "bank/late"
	a.waitMatrix("8080/TCP", pods, `
		shop/db | shop/web shop/web-in
		bank/late | shop/web shop/web-in
		bank/far | shop/web shop/web-in
	`)

	t.Log("the node's address changed")
	w.nodeAddress("e2e-1", "192.168.0.9")
	a.waitTrace(`
		192.168.0.9->shop/web:80/TCP allow
		192.168.0.1->shop/web:80/TCP deny
	`)

	t.Log("the policy deleted")
	w.deletePolicy("shop", "web-in")
	a.waitMatrix("8080/TCP", pods, ``)

	t.Log("egress to a block with a hole and a range of ports")
	w.policy("bank", "out", `
podSelector: {}
policyTypes: [Egress]
egress:
- to: [{ipBlock: {cidr: 10.10.0.0/24, except: [10.10.0.2/32]}}]
  ports: [{port: 8000, endPort: 8999}]
`)
	a.waitTrace(`
		bank/late->shop/web:8080/TCP allow
		bank/late->shop/web:80/TCP deny
		bank/late->shop/db:8080/TCP deny
		bank/late->10.10.0.77:8999/TCP allow
		bank/late->10.10.0.77:9000/TCP deny
		bank/late->10.10.1.1:8080/TCP deny
		shop/web->bank/late:80/TCP allow
	`)

	t.Log("what Windows cannot do closes, and is told")
	w.policy("shop", "six", `
podSelector: {matchLabels: {app: db}}
ingress:
- from: [{ipBlock: {cidr: "fd00::/8"}}]
`)
	a.waitTrace(`
		shop/web->shop/db:80/TCP deny
		10.1.2.3->shop/db:80/TCP deny
	`)
	a.waitWarning("shop/six", "IPv6Peer")
	w.deletePolicy("shop", "six")
	a.waitMatrix("8080/TCP", pods, `bank/late | shop/db bank/out`)

	t.Log("a namespace deleted with all that is in it")
	w.finishPod("bank", "late") // kubelets report the end of pods before the objects go
	w.finishPod("bank", "far")
	w.removeNamespace("bank")
	a.waitMatrix("8080/TCP", pods[:2], ``)
	a.waitTrace(`10.10.0.9->shop/web:80/TCP allow`)
}

func (a *agent) waitWarning(object, reason string) {
	a.t.Helper()
	servers.Eventually(a.t, settle, func() string {
		got, err := a.ask(url.Values{})
		if err != nil {
			return err.Error()
		}
		for _, warning := range got.Warnings {
			if warning.Object == object && warning.Reason == reason && warning.Message != "" {
				return ""
			}
		}
		return "no warning " + reason + " about " + object
	})
}

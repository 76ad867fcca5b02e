// Package conformance runs the conformance suite of sigs.k8s.io/network-policy-api,
// unmodified, against the agent: a real kube-apiserver and etcd, agents on simulated
// Windows nodes, and stand-ins for what else a cluster has. They make the pods of the
// suite's StatefulSets and play the kubelet, which answers exec of "agnhost connect"
// with the verdict of the simulator's packet tracer.
//
// On the same stand-ins, cyclonus plays what Kubernetes' own suite asks of NetworkPolicies,
// unmodified as well.
//
// make conformance runs both. It is a module of its own, for the suites' dependencies.
package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/test/servers"
)

// What all tests share. They run one after the other, and each leaves the server
// without namespaces and policies of its own.
var (
	admin *rest.Config
	kube  *kubernetes.Clientset // the administrator's
)

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	program := filepath.Join(os.Getenv("NPM_E2E_BIN"), "apiserver-up")
	if _, err := os.Stat(program); err != nil {
		return 0, fmt.Errorf("no %s: run \"make conformance\" in the root of the repository", program)
	}
	kubeconfig, stop, err := servers.Start(program)
	if err != nil {
		return 0, err
	}
	defer stop()
	if admin, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return 0, err
	}
	admin.QPS = -1 // no limit
	if kube, err = kubernetes.NewForConfig(admin); err != nil {
		return 0, err
	}
	if err := installClusterPolicies(context.Background()); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// installClusterPolicies gives the server the CRD that the suite was made for: that of the root
// module, which requires the same version.
func installClusterPolicies(ctx context.Context) error {
	text, err := os.ReadFile("../../tool/manifest/clusternetworkpolicies.yaml")
	if err != nil {
		return err
	}
	crd, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	api := kube.RESTClient()
	if err := api.Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").Body(crd).Do(ctx).Error(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := api.Get().AbsPath("/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies").Do(ctx).Error()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the server does not serve ClusterNetworkPolicies: %w", err)
		}
	}
}

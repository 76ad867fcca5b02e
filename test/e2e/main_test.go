// Package e2e runs the built agent against a real API server and store, with
// the rights of deploy/ and nothing more, and asks it for verdicts.
//
// There is no controller manager and no kubelet: the suite creates each
// default ServiceAccount, writes the status of pods, deletes them with grace
// period 0 and finalizes namespaces itself. "make e2e" builds and runs it all.
package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/winnpm/winnpm/test/servers"
)

// What all tests share. They run one after the other, and each leaves the
// cluster as empty as it found it.
var (
	bin   string // folder of the programs
	admin *rest.Config
	kube  *kubernetes.Clientset // the administrator's
)

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	bin = os.Getenv("NPM_E2E_BIN")
	for _, program := range []string{"apiserver-up", "npm", "kubectl-npm", "simnode"} {
		if _, err := os.Stat(filepath.Join(bin, program)); bin == "" || err != nil {
			return 0, fmt.Errorf("no %s in NPM_E2E_BIN=%q: run \"make e2e\" in the root of the repository", program, bin)
		}
	}
	kubeconfig, stop, err := servers.Start(filepath.Join(bin, "apiserver-up"))
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
	if err := installRights(context.Background(), kube); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

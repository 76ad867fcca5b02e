package deps

import (
	_ "github.com/go-logr/zapr"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/spf13/cobra"
	_ "github.com/stretchr/testify/require"
	_ "go.uber.org/goleak"
	_ "go.uber.org/zap"
	_ "go4.org/netipx"
	_ "golang.org/x/tools/txtar"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/api/apps/v1"
	_ "k8s.io/api/batch/v1"
	_ "k8s.io/api/networking/v1"
	_ "k8s.io/apimachinery/pkg/labels"
	_ "k8s.io/client-go/rest"
	_ "k8s.io/client-go/tools/cache"
	_ "k8s.io/client-go/tools/clientcmd"
	_ "k8s.io/client-go/util/workqueue"
	_ "k8s.io/klog/v2"
	_ "pgregory.net/rapid"
	_ "sigs.k8s.io/yaml"
)

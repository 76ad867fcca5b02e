// Command etcd is the store below the end-to-end suite's API server: etcd's
// own main, built from its Go module so that no download is needed.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }

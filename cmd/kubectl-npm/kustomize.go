package main

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/winnpm/winnpm/pkg/cli"
)

// kustomized returns the objects of a kustomization, built with the library and the options that
// kubectl has. A kustomization that names a repository has git fetch it.
func kustomized(dir string) ([]byte, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy
	objects, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("-k %s: %s", dir, cli.Printable(err.Error()))
	}
	text, err := objects.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("-k %s: %s", dir, cli.Printable(err.Error()))
	}
	return text, nil
}

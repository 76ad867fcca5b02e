package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// base is an image to build on: one for all versions of Windows, or an index of one for each.
type base struct {
	ref   name.Digest
	index v1.ImageIndex // nil: single is the image
	parts []part
}

// part is an image for one platform.
type part struct {
	platform *v1.Platform // as the index has it; nil without one
	image    v1.Image
}

// fetch reads a base from its registry. A tag is refused: who owns it can move it.
func fetch(ctx context.Context, text string) (base, error) {
	ref, err := name.NewDigest(text)
	if err != nil {
		return base{}, fmt.Errorf("the base %q has no digest: name it as NAME@sha256:... (docs/operations.md)", text)
	}
	found, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return base{}, fmt.Errorf("the base %s: %w", ref, err)
	}
	b := base{ref: ref}
	if !found.MediaType.IsIndex() {
		image, err := found.Image()
		b.parts = []part{{image: image}}
		return b, err
	}
	if b.index, err = found.ImageIndex(); err != nil {
		return base{}, err
	}
	list, err := b.index.IndexManifest()
	if err != nil {
		return base{}, err
	}
	for _, m := range list.Manifests {
		if m.Platform == nil || m.Platform.OS != "windows" || m.Platform.Architecture != "amd64" {
			continue
		}
		image, err := b.index.Image(m.Digest)
		if err != nil {
			return base{}, err
		}
		b.parts = append(b.parts, part{m.Platform, image})
	}
	if len(b.parts) == 0 {
		return base{}, fmt.Errorf("the base %s is for no windows/amd64", ref)
	}
	return b, nil
}

// result is what was made: an image, or an index of several.
type result struct {
	index v1.ImageIndex // nil: the first part is all
	parts []part
}

// with puts the programs on the base, in a layer of their own on each part. Each keeps the
// platform that the base has: by that containerd chooses, and a base without a version of
// Windows is for every one.
func (b base) with(content []program, version string) (result, error) {
	var made result
	for _, p := range b.parts {
		image, err := b.one(p.image, content, version)
		if err != nil {
			return result{}, err
		}
		made.parts = append(made.parts, part{p.platform, image})
	}
	if b.index == nil {
		return made, nil
	}
	kind, err := b.index.MediaType()
	if err != nil {
		return result{}, err
	}
	made.index = mutate.IndexMediaType(empty.Index, kind)
	for _, p := range made.parts {
		made.index = mutate.AppendManifests(made.index, mutate.IndexAddendum{Add: p.image, Descriptor: v1.Descriptor{Platform: p.platform}})
	}
	return made, nil
}

// one puts the programs on one image.
func (b base) one(image v1.Image, content []program, version string) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	// The library packs a layer as Windows wants it where the base says that it is for Windows.
	if config.OS != "windows" {
		return nil, fmt.Errorf("the base %s is for %q", b.ref, config.OS)
	}
	text, err := packed(content)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "winnpm-image")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "programs.tar")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	image, err = crane.Append(image, file)
	if err != nil {
		return nil, err
	}
	config, err = image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Config.Entrypoint, config.Config.Cmd = []string{"npm.exe", "start"}, nil
	config.Config.Labels = map[string]string{
		"org.opencontainers.image.title":       "WinNPM",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/winnpm/winnpm",
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.base.digest": b.ref.DigestStr(),
		"org.opencontainers.image.base.name":   b.ref.Context().Name(),
	}
	return mutate.ConfigFile(image, config)
}

package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// list prints each layer with its files.
func (r result) list(out io.Writer) error {
	for _, p := range r.parts {
		config, err := p.image.ConfigFile()
		if err != nil {
			return err
		}
		version := config.OSVersion
		if version == "" {
			version = "any version"
		}
		fmt.Fprintf(out, "%s/%s, %s\n", config.OS, config.Architecture, version)
		layers, err := p.image.Layers()
		if err != nil {
			return err
		}
		for _, layer := range layers {
			if err := listLayer(out, layer); err != nil {
				return err
			}
		}
	}
	return nil
}

func listLayer(out io.Writer, layer v1.Layer) error {
	digest, err := layer.Digest()
	if err != nil {
		return err
	}
	size, err := layer.Size()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  layer %s, %d bytes\n", digest, size)
	content, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	files := tar.NewReader(content)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("layer %s: %w", digest, err)
		}
		fmt.Fprintf(out, "    %s %d\n", header.Name, header.Size)
	}
}

// push writes it to a registry, with the credentials that "docker login" keeps, and prints
// the name by digest.
func (r result) push(ctx context.Context, to string, out io.Writer) error {
	ref, err := name.NewTag(to)
	if err != nil {
		return fmt.Errorf("where to: %w; say REGISTRY/NAME:TAG, or a file that ends in %s", err, archiveExtension)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	var digest v1.Hash
	if r.index != nil {
		if err := remote.WriteIndex(ref, r.index, options...); err != nil {
			return err
		}
		digest, err = r.index.Digest()
	} else {
		if err := remote.Write(ref, r.parts[0].image, options...); err != nil {
			return err
		}
		digest, err = r.parts[0].image.Digest()
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, ref.Context().Digest(digest.String()))
	return err
}

// save writes it into a file, as an archive of the OCI layout.
func (r result) save(file, version string) error {
	folder, err := os.MkdirTemp("", "winnpm-image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	at, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	// containerd imports an image under a name, which it takes from here.
	named := layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          "winnpm/npm:" + version,
		"org.opencontainers.image.ref.name": version,
	})
	if r.index != nil {
		err = at.AppendIndex(r.index, named)
	} else {
		err = at.AppendImage(r.parts[0].image, named)
	}
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(archive(out, folder), out.Close())
}

// archive packs a folder, in the order of names.
func archive(out io.Writer, folder string) error {
	t := tar.NewWriter(out)
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(path)))
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o644, Size: int64(len(content)), ModTime: builtAt, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		_, err = t.Write(content)
		return err
	})
	return errors.Join(err, t.Close())
}

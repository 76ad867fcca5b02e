// Command image puts the agent's programs on a base image for HostProcess containers, and
// writes the result to a registry or into a file. It needs neither Windows nor a daemon. The
// same programs on the same base give the same bytes.
package main

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// programs are the files of the image, at its root: what deploy/base starts, and the CNI
// plugin, which npm install-cni looks for beside itself.
var programs = []string{"npm.exe", "winnpm-cni.exe"}

// archiveExtension tells a file from the name of an image in a registry.
const archiveExtension = ".tar"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run makes the image, and prints its name by digest if it pushes it.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	base := flags.String("base", "", "the base image, by digest: NAME@sha256:...")
	folder := flags.String("programs", "", "the folder with "+strings.Join(programs, " and "))
	version := flags.String("version", "", "the version for the image's labels, such as v0.1.0")
	to := flags.String("to", "", "REGISTRY/NAME:TAG, or a file that ends in "+archiveExtension)
	if err := flags.Parse(args); err != nil {
		return err
	}
	image, err := build(ctx, *base, *folder, *version)
	if err != nil {
		return err
	}
	if strings.HasSuffix(*to, archiveExtension) {
		return crane.Save(image, "winnpm/npm:"+*version, *to) // containerd imports it under this name
	}
	ref, err := name.NewTag(*to)
	if err != nil {
		return fmt.Errorf("where to: %w; say REGISTRY/NAME:TAG, or a file that ends in %s", err, archiveExtension)
	}
	if err := crane.Push(image, *to, crane.WithContext(ctx)); err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, ref.Context().Digest(digest.String()))
	return err
}

// build puts the programs on the base, in a layer of their own. A tag is refused as the base, because its
// owner can move it.
func build(ctx context.Context, base, folder, version string) (v1.Image, error) {
	ref, err := name.NewDigest(base)
	if err != nil {
		return nil, fmt.Errorf("the base %q has no digest: name it as NAME@sha256:... (docs/operations.md)", base)
	}
	// Of an index it takes the first image for Windows: a HostProcess container runs on every version of it.
	image, err := crane.Pull(base, crane.WithContext(ctx), crane.WithPlatform(&v1.Platform{OS: "windows", Architecture: "amd64"}))
	if err != nil {
		return nil, fmt.Errorf("the base %s: %w", ref, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	// The library packs a layer as Windows wants it where the base says that it is for Windows.
	if config.OS != "windows" {
		return nil, fmt.Errorf("the base %s is for %q", ref, config.OS)
	}
	tmp, err := os.MkdirTemp("", "winnpm-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	layer := filepath.Join(tmp, "layer.tar")
	if err := pack(folder, layer); err != nil {
		return nil, err
	}
	image, err = crane.Append(image, layer)
	if err != nil {
		return nil, err
	}
	config, err = image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.Config.Entrypoint, config.Config.Cmd = []string{"npm.exe", "start"}, nil
	config.Config.Labels = map[string]string{
		"org.opencontainers.image.title":       "WinNPM",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/winnpm/winnpm",
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.base.digest": ref.DigestStr(),
		"org.opencontainers.image.base.name":   ref.Context().Name(),
	}
	return mutate.Config(image, config.Config)
}

// pack writes a tar file of the programs. Every file in it has the same time, so equal programs give
// equal bytes.
func pack(folder, file string) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	t := tar.NewWriter(out)
	defer func() { err = errors.Join(err, t.Close(), out.Close()) }()
	for _, program := range programs {
		content, err := os.ReadFile(filepath.Join(folder, program))
		if err != nil {
			return fmt.Errorf("the programs: %w; \"make release\" makes them", err)
		}
		header := &tar.Header{Name: program, Mode: 0o755, Size: int64(len(content)), ModTime: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), Format: tar.FormatPAX}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(content); err != nil {
			return err
		}
	}
	return nil
}

// Command image puts the agent's programs on a base image for HostProcess containers, and
// writes the result to a registry or into a file. It needs neither Windows nor a daemon. The
// same programs on the same base give the same bytes.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

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

// run makes the image and lists its layers.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	base := flags.String("base", "", "the base image, by digest: NAME@sha256:...")
	folder := flags.String("programs", "", "the folder with "+strings.Join(programs, " and "))
	version := flags.String("version", "", "the version for the image's labels, such as v0.1.0")
	to := flags.String("to", "", "REGISTRY/NAME:TAG, or a file that ends in "+archiveExtension)
	if err := flags.Parse(args); err != nil {
		return err
	}
	content, err := readPrograms(*folder)
	if err != nil {
		return err
	}
	b, err := fetch(ctx, *base)
	if err != nil {
		return err
	}
	made, err := b.with(content, *version)
	if err != nil {
		return err
	}
	if err := made.list(out); err != nil {
		return err
	}
	if strings.HasSuffix(*to, archiveExtension) {
		return made.save(*to, *version)
	}
	return made.push(ctx, *to, out)
}

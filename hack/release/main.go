// Command release packs the programs that hack/release.sh built: archives of the CLI, what
// a node runs, what is linked into each, the manifest for krew, and checksums. Nothing that it writes tells when or where it ran.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sumsFile lists the checksums of the other files, as sha256sum --check reads them.
const sumsFile = "SHA256SUMS"

// release is one run: what was built, and where the files of the release go.
type release struct {
	version     string
	license     string // a file
	built, dist string // folders; built has one for each GOOS, with one for each GOARCH
}

// target is a platform that the CLI was built for.
type target struct{ goos, goarch string }

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "the version, such as v0.1.0")
	flag.StringVar(&r.license, "license", "", "the file with the license")
	flag.StringVar(&r.built, "built", "", "the folder of GOOS/GOARCH/program")
	flag.StringVar(&r.dist, "dist", "", "the folder to write to")
	flag.Parse()
	if err := r.write(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r release) write() error {
	targets, err := r.targets()
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := r.pack(t); err != nil {
			return fmt.Errorf("%s/%s: %w", t.goos, t.goarch, err)
		}
	}
	if err := r.saveKrew(targets); err != nil {
		return err
	}
	return r.sums()
}

// targets finds what was built, sorted.
func (r release) targets() ([]target, error) {
	folders, err := filepath.Glob(filepath.Join(r.built, "*", "*"))
	if err != nil || len(folders) == 0 {
		return nil, fmt.Errorf("nothing built in %s: %w", r.built, err)
	}
	slices.Sort(folders)
	var targets []target
	for _, folder := range folders {
		targets = append(targets, target{filepath.Base(filepath.Dir(folder)), filepath.Base(folder)})
	}
	return targets, nil
}

// pack writes the archive of kubectl-npm for a platform, and for Windows what a node runs.
func (r release) pack(t target) error {
	folder := filepath.Join(r.built, t.goos, t.goarch)
	tool, err := os.ReadFile(filepath.Join(folder, "kubectl-npm"+t.exe()))
	if err != nil {
		return err
	}
	license, err := os.ReadFile(r.license)
	if err != nil {
		return err
	}
	packed, err := t.archive([]entry{
		{"LICENSE", 0o644, license},
		{"kubectl-npm" + t.exe(), 0o755, tool},
	})
	if err != nil {
		return err
	}
	name := r.archiveName(t)
	if err := r.save(name, packed); err != nil {
		return err
	}
	if err := r.saveBOM(name, tool); err != nil {
		return err
	}
	if t.goos != "windows" {
		return nil
	}
	for _, name := range []string{"npm.exe", "winnpm-cni.exe", "doctor.exe", "contract.exe"} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		if err := r.save(name, content); err != nil {
			return err
		}
		if err := r.saveBOM(name, content); err != nil {
			return err
		}
	}
	return nil
}

// sums writes the checksums of all that was written, by name.
func (r release) sums() error {
	files, err := os.ReadDir(r.dist) // sorted
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, file := range files {
		sum, err := r.sum(file.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, file.Name())
	}
	return r.save(sumsFile, []byte(text.String()))
}

func (r release) sum(name string) (string, error) {
	content, err := os.ReadFile(filepath.Join(r.dist, name))
	return fmt.Sprintf("%x", sha256.Sum256(content)), err
}

func (r release) save(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.dist, name), content, 0o644)
}

func (r release) archiveName(t target) string {
	extension := ".tar.gz"
	if t.goos == "windows" {
		extension = ".zip"
	}
	return fmt.Sprintf("winnpm_%s_%s_%s%s", r.version, t.goos, t.goarch, extension)
}

func (t target) exe() string {
	if t.goos == "windows" {
		return ".exe"
	}
	return ""
}

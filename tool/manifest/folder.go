package manifest

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The names of files of other tools, which are not manifests.
var (
	chartFiles         = []string{"Chart.yaml", "Chart.yml"}
	kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
)

// folder reads the manifests in a folder, and with Options.Recursive also in its subfolders. It warns about
// skipped folders. It does not follow links to folders.
func (l *loader) folder(root string) error {
	found := false
	below := "" // the first folder that is skipped because Options.Recursive is not set
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		path := filepath.Join(root, filepath.FromSlash(name))
		first, _, inside := strings.Cut(name, "/")
		deep := !l.Recursive && (inside || name != "." && e.IsDir())
		switch {
		case deep && (err != nil || !e.IsDir() && isManifest(name)):
			below = cmp.Or(below, filepath.Join(root, first))
			return fs.SkipDir
		case err != nil:
			return unreadable(path, err)
		case e.IsDir() && name != "." && (strings.HasPrefix(e.Name(), ".") || deep && below != ""):
			return fs.SkipDir // a folder of another tool, such as .git, or a further skipped one
		case e.IsDir() && !deep:
			return l.otherTools(path)
		case e.IsDir() || deep || !isManifest(name):
			return nil
		}
		info, err := os.Stat(path) // through the links of mounted ConfigMaps
		switch {
		case err != nil:
			return unreadable(path, err)
		case info.IsDir():
			return nil
		case !info.Mode().IsRegular(): // reading a device or a pipe may never end
			return &Error{File: path, Reason: "is no regular file; take it out of the folder"}
		}
		found = true
		return l.readFile(path)
	})
	if err == nil && below != "" {
		l.leaveOut(below, "has manifests and is left out, as are other folders below %s: add -R to read them", root)
	}
	if err == nil && !found {
		return l.nothing(root)
	}
	return err
}

// otherTools warns about a folder of Helm, which it skips, or of kustomize.
func (l *loader) otherTools(path string) error {
	if has(path, chartFiles) {
		l.leaveOut(path, "is a Helm chart, which is not rendered: give what helm template %s prints", path)
		return fs.SkipDir
	}
	if has(path, kustomizationFiles) {
		l.leaveOut(path, "has a kustomization, which is not applied to the manifests beside it: give what kubectl kustomize %s prints", path)
	}
	return nil
}

// nothing returns the error for a folder without manifests, with the reason if it is known.
func (l *loader) nothing(path string) error {
	reason := "the folder has no .yaml, .yml or .json file; name the folder that has"
	if n := len(l.warnings); n > 0 && l.warnings[n-1].Reason == FolderSkipped {
		reason = "there is no manifest to read: " + l.warnings[n-1].Message
	}
	return &Error{File: path, Reason: reason}
}

func (l *loader) leaveOut(path, why string, args ...any) {
	l.warn(oneLine(path), "Folder", FolderSkipped, "the folder %s %s", path, fmt.Sprintf(why, args...))
}

// isManifest reports whether kubectl would read a file as a manifest by its name, and it is not a
// kustomization.
func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) && !slices.Contains(kustomizationFiles, filepath.Base(name))
}

func has(folder string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		info, err := os.Stat(filepath.Join(folder, name))
		return err == nil && !info.IsDir()
	})
}

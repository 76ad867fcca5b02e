package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What other tools call the files of theirs that are no manifests.
var (
	chartFiles         = []string{"Chart.yaml", "Chart.yml"}
	kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
)

// instead says how the objects of a kustomization are given.
func (l *loader) instead() string {
	if l.change {
		return "give -k %s instead"
	}
	return "give what kubectl kustomize %s prints"
}

// folder reads the manifests of a folder, and with Options.Recursive of those below it. What
// it leaves out is a warning. Folders that links lead to are left out, so it comes to an end.
func (l *loader) folder(path string) ([]file, error) {
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, unreadable(path, err)
	}
	if has(entries, chartFiles) {
		l.leaveOut(path, "is a Helm chart, which is not rendered: give what helm template %s prints", path)
		return nil, nil
	}
	if has(entries, kustomizationFiles) {
		l.leaveOut(path, "has a kustomization, which is not applied to the manifests beside it: "+l.instead(), path)
	}
	var out []file
	below := ""
	for _, entry := range entries {
		name := filepath.Join(path, entry.Name())
		switch {
		case entry.IsDir() && l.recursive && !hidden(entry):
			files, err := l.folder(name)
			if err != nil {
				return nil, err
			}
			out = append(out, files...)
		case entry.IsDir() && !l.recursive && below == "" && !hidden(entry) && holds(name):
			below = name
		case entry.IsDir() || !isManifest(entry.Name()):
		default:
			f, is, err := l.regular(name)
			if err != nil {
				return nil, err
			}
			if is {
				out = append(out, f)
			}
		}
	}
	if below != "" {
		l.leaveOut(below, "has manifests and is left out, as are other folders below %s: add -R to read them", path)
	}
	return out, nil
}

// regular reads a file, also through the links of mounted ConfigMaps; false: the link is one
// to a folder.
func (l *loader) regular(name string) (file, bool, error) {
	info, err := os.Stat(name)
	if err != nil {
		return file{}, false, unreadable(name, err)
	}
	if info.IsDir() {
		return file{}, false, nil
	}
	if !info.Mode().IsRegular() { // reading a device or a pipe may never end
		return file{}, false, &Error{File: name, Reason: "is no regular file; take it out of the folder"}
	}
	f, err := l.read(name)
	return f, true, err
}

// nothing is the error about a folder that has no manifest, with what was left out of it.
func (l *loader) nothing(path string) error {
	reason := "the folder has no .yaml, .yml or .json file; name the folder that has"
	if n := len(l.warnings); n > 0 && l.warnings[n-1].Reason == FolderSkipped {
		reason = "there is no manifest to read: " + l.warnings[n-1].Message
	}
	return &Error{File: path, Reason: reason}
}

func (l *loader) leaveOut(path, why string, args ...any) {
	l.warnings = append(l.warnings, Warning{
		Object: oneLine(path), Kind: "Folder", Reason: FolderSkipped, Message: oneLine("the folder " + path + " " + fmt.Sprintf(why, args...)),
	})
}

// isManifest goes by the name, as kubectl does. A kustomization is none.
func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) && !slices.Contains(kustomizationFiles, name)
}

func has(entries []os.DirEntry, names []string) bool {
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() && slices.Contains(names, e.Name()) })
}

// hidden folders are those of other tools, such as .git.
func hidden(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }

// searched is how many files and folders are looked at for a manifest below a folder.
const searched = 10_000

// holds reports whether there is a manifest in a folder or below it. In what cannot be read,
// and behind the first many files, there may be one.
func holds(path string) bool {
	seen, found := 0, errors.New("found")
	err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		switch seen++; {
		case err != nil || seen > searched:
			return cmp.Or(err, found)
		case e.IsDir() && seen > 1 && hidden(e):
			return filepath.SkipDir
		case !e.IsDir() && isManifest(e.Name()):
			return found
		}
		return nil
	})
	return err != nil
}

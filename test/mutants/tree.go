package main

import (
	"errors"
	"os"
	"path/filepath"
)

// tree is a copy of a repository.
type tree struct {
	root  string
	files []string // of root, relative
	dir   string   // has the copy alone, so that git finds no repository around it
}

// refresh makes the copy equal to the repository again, without what tests
// leave behind: a saved counterexample of one mutant must not kill the next.
func (t tree) refresh() error {
	if err := os.RemoveAll(t.dir); err != nil {
		return err
	}
	for _, file := range t.files {
		from, to := filepath.Join(t.root, file), filepath.Join(t.dir, file)
		info, err := os.Lstat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue // tracked, but deleted in the work tree
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// manifest is what setup has made, in the order of the steps.
type manifest struct {
	path string
	Made []made `json:"made"`
}

// made is one thing that setup has made, or has begun to make.
type made struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	Sum  string `json:"sha256,omitempty"` // of a file
	Done bool   `json:"done"`
}

const maxManifest = 1 << 20

func readManifest(path string) (*manifest, error) {
	m := &manifest{path: path}
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || info.Size() > maxManifest {
		return nil, fmt.Errorf("%s is not a manifest of setup: others could have written it", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return m, nil
}

// begin notes that a step is being done. manifest is the path of the file on the host.
func (m *manifest) begin(s step, manifest string) error {
	m.forget(s.kind, s.name)
	if dir := filepath.Dir(manifest); len(m.Made) == 0 && dir != s.name { // which writing makes
		if _, err := os.Lstat(filepath.Dir(m.path)); errors.Is(err, os.ErrNotExist) {
			m.Made = append(m.Made, made{Kind: Dir, Name: dir})
		}
	}
	m.Made = append(m.Made, made{Kind: s.kind, Name: s.name, Sum: s.sum})
	return m.write()
}

// begun reports whether a step was begun and not finished.
func (m *manifest) begun(s step) bool {
	return slices.ContainsFunc(m.Made, func(e made) bool { return e.Kind == s.kind && e.Name == s.name && !e.Done })
}

// finish notes that a step was done, if it was begun.
func (m *manifest) finish(s step) {
	for i := range m.Made {
		if m.Made[i].Kind == s.kind && m.Made[i].Name == s.name {
			m.Made[i].Done = true
		}
	}
}

func (m *manifest) forget(kind Kind, name string) {
	m.Made = slices.DeleteFunc(m.Made, func(e made) bool { return e.Kind == kind && e.Name == name })
}

// write replaces the file in one step.
func (m *manifest) write() error {
	if err := os.MkdirAll(filepath.Dir(m.path), 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	tmp := m.path + ".new"
	if err := os.WriteFile(tmp, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, m.path)
}

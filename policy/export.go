package policy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/policy/permission"

	library "github.com/sandboxd/sandboxd/rego"
)

// Export writes what a decision is made of as plain files into dir, which must be
// new or empty, for the tools of OPA: the library with its tests, the permission
// rules as data.json, and judge.rego, which asks what the daemon asks.
func Export(dir string, opts Options) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if old, err := os.ReadDir(dir); err != nil || len(old) > 0 {
		return fmt.Errorf("export policies: %q is not an empty directory", dir)
	}
	files, err := readSources(opts)
	if err != nil {
		return err
	}
	tests, err := readTests(opts)
	if err != nil {
		return err
	}
	modules, err := parse(files)
	if err != nil {
		return err
	}
	packages, err := judged(modules, opts.Profile)
	if err != nil {
		return err
	}
	tables, err := permission.Tables(opts.Rules)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(map[string]any{"sandboxd": map[string]any{"rules": tables}}, "", "  ")
	if err != nil {
		return err
	}
	files = append(append(files, tests...),
		source{"data.json", append(data, '\n')},
		source{"judge.rego", []byte("package sandboxd.judge\n\nfindings := " + query(packages) + "\n")})
	for _, name := range []string{"schemas/input.json", "schemas/finding.json", "capabilities.json"} {
		text, err := library.Files.ReadFile(name)
		if err != nil {
			return err
		}
		files = append(files, source{name, text})
	}
	for _, f := range files {
		if operatorFile(f.name) && filepath.IsAbs(f.name) {
			continue // the operator has them
		}
		name := filepath.Join(dir, strings.Replace(f.name, libraryPrefix, "library/", 1))
		if err := writeNew(name, f.text); err != nil {
			return err
		}
	}
	return nil
}

func writeNew(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// query asks for each package by name, as a decision does: one that is missing makes
// the whole undefined.
func query(packages []string) string {
	sets := make([]string, len(packages))
	for i, p := range packages {
		sets[i] = "data." + p + ".findings"
	}
	return "[" + strings.Join(sets, ", ") + "]"
}

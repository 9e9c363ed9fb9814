package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"

	"github.com/sandboxd/sandboxd/policy/permission"
	library "github.com/sandboxd/sandboxd/rego"
)

// Format returns the one way to write a Rego file.
func Format(name string, text []byte) ([]byte, error) {
	out, err := format.SourceWithOpts(name, text, format.Opts{RegoVersion: ast.RegoV1})
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", name, err)
	}
	return out, nil
}

// Files gives every .rego file below dir, tests included, by absolute path.
func Files(dir string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(p) == ".rego" {
			out = append(out, p)
		}
		return err
	})
	slices.Sort(out)
	return out, err
}

// Init writes a first policy with its test into dir, which it makes. It never
// overwrites.
func Init(dir, owner string) ([]string, error) {
	if !ast.IsVarCompatibleString(owner) || slices.Contains(libraryOwners, owner) {
		return nil, fmt.Errorf("%q cannot be the owner of a policy: want a word of your own, such as acme", owner)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var out []string
	for name, text := range map[string]string{"branches.rego": initPolicy, "branches_test.rego": initTest} {
		p := filepath.Join(dir, name)
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return nil, err
		}
		_, err = f.Write(bytes.ReplaceAll([]byte(text), []byte("OWNER"), []byte(owner)))
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	slices.Sort(out)
	return out, nil
}

const initPolicy = `# METADATA
# title: Protected branches
# description: Pushes to main go through review.
package sandboxd.policies.OWNER.branches

# METADATA
# title: Push to main
# custom:
#   match:
#     - git push origin main
#     - git -C sub push origin HEAD:main
#   not_match:
#     - git push origin topic
#     - git pull origin main
findings contains {
	"id": "OWNER.branches.main",
	"effect": "ask",
	"message": "this pushes to main",
	"hint": "push a branch and open a review",
	"subject": command.id,
} if {
	some command in input.commands
	"git push" in command.prefixes
	some word in command.operands
	to_main(word)
}

to_main(word) if word == "main"

to_main(word) if endswith(word, ":main")
`

const initTest = `package sandboxd.policies.OWNER.branches_test

import data.sandboxd.policies.OWNER.branches

push(words) := {"commands": [{
	"id": "command:0",
	"prefixes": ["git", "git push"],
	"operands": words,
}]}

test_main_asks if {
	some finding in branches.findings with input as push(["push", "origin", "main"])
	finding.effect == "ask"
}

test_refspec_to_main_asks if {
	count(branches.findings) == 1 with input as push(["push", "origin", "HEAD:main"])
}

test_topic_passes if {
	count(branches.findings) == 0 with input as push(["push", "origin", "topic"])
}
`

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

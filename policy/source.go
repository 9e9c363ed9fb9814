package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"

	library "github.com/sandboxd/sandboxd/rego"
)

// Caps on operator policies: what is larger is a mistake, or generated.
const (
	maxModuleBytes = 256 << 10
	maxModules     = 500
)

// libraryPrefix marks the library's files. No operator's file has it, since
// their directories are absolute.
const libraryPrefix = "rego/"

// source is one Rego file.
type source struct {
	name string // as in messages
	text []byte
}

func (s source) equal(o source) bool { return s.name == o.name && bytes.Equal(s.text, o.text) }

// readSources gives the library for the profile, then the operator's files, in
// the order of their names.
func readSources(opts Options) ([]source, error) {
	var out []source
	for _, dir := range libraryDirs(opts.Profile) {
		s, err := readTree(library.Files, dir, libraryPrefix, isPolicy)
		if err != nil {
			return nil, err
		}
		out = append(out, s...)
	}
	for _, dir := range opts.Dirs {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("read policies: %q is not an absolute path", dir)
		}
		var data string
		s, err := readTree(os.DirFS(dir), ".", strings.TrimSuffix(dir, "/")+"/", func(name string) bool {
			if isData(name) {
				data = name
			}
			return isPolicy(name)
		})
		if gone, ok := errors.AsType[*fs.PathError](err); ok && gone.Path == "." {
			err = gone.Err
		}
		if err != nil {
			return nil, fmt.Errorf("read policies in %q: %w", dir, err)
		}
		if data != "" {
			return nil, fmt.Errorf("read policies: %q would not be loaded: files with data are not; write the "+
				"values as a rule, and move the file away", filepath.Join(dir, data))
		}
		if len(s) == 0 {
			return nil, fmt.Errorf("read policies: %q holds no .rego file", dir)
		}
		out = append(out, s...)
	}
	if len(out) > maxModules {
		return nil, fmt.Errorf("read policies: %d files, at most %d are loaded", len(out), maxModules)
	}
	return out, nil
}

// libraryDirs returns the directories of the library for a profile. The observe profile reads the developer rules,
// and strict has them as well.
func libraryDirs(profile Profile) []string {
	dirs := []string{"lib", "audit", "core", string(ProfileDeveloper)}
	if profile != ProfileDeveloper {
		dirs = append(dirs, string(profile))
	}
	return dirs
}

func isPolicy(name string) bool {
	return filepath.Ext(name) == ".rego" && !isTest(name)
}

// readTree reads every file below root whose name the caller wants.
func readTree(fsys fs.FS, root, prefix string, want func(name string) bool) ([]source, error) {
	var out []source
	err := fs.WalkDir(fsys, root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !want(p) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s%s is not a regular file", prefix, p)
		}
		if info.Size() > maxModuleBytes {
			return fmt.Errorf("%s%s has %d bytes, at most %d are loaded", prefix, p, info.Size(), maxModuleBytes)
		}
		b, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		out = append(out, source{name: prefix + p, text: b})
		return nil
	})
	return out, err
}

func parse(files []source) (map[string]*ast.Module, error) {
	modules := make(map[string]*ast.Module, len(files))
	for _, f := range files {
		m, err := ast.ParseModuleWithOpts(f.name, string(f.text), ast.ParserOptions{
			ProcessAnnotation: true, RegoVersion: ast.RegoV1,
		})
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", f.name, err)
		}
		if _, ok := modules[f.name]; ok {
			return nil, fmt.Errorf("%s is loaded twice", f.name)
		}
		modules[f.name] = m
	}
	return modules, nil
}

// checkPackages keeps the operator's files out of the library's packages, in
// which a rule more would change what the library says.
func checkPackages(modules map[string]*ast.Module) error {
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		if strings.HasPrefix(file, libraryPrefix) {
			continue
		}
		name := strings.TrimPrefix(modules[file].Package.Path.String(), "data.")
		if name == maskPackage {
			continue
		}
		parts := strings.Split(name, ".")
		if len(parts) != 4 || parts[0] != "sandboxd" || parts[1] != "policies" {
			if parts[0] == "sandboxd" {
				return fmt.Errorf("%s: package %s belongs to sandboxd; want sandboxd.policies.OWNER.NAME", file, name)
			}
			return fmt.Errorf("%s: package %s is never asked; want sandboxd.policies.OWNER.NAME", file, name)
		}
		if slices.Contains(libraryOwners, parts[2]) {
			return fmt.Errorf("%s: package %s belongs to sandboxd; want an owner of your own", file, name)
		}
	}
	return nil
}

// libraryOwners are the owners that operators cannot be.
var libraryOwners = []string{
	"core", string(ProfileDeveloper), string(ProfileObserve), string(ProfileStrict),
}

// compiled is a set of files that was read, checked and compiled. Nothing changes it.
type compiled struct {
	files    []source
	modules  map[string]*ast.Module
	compiler *ast.Compiler
}

// lastCompiled spares most of the work of a reload that changes settings alone.
var lastCompiled atomic.Pointer[compiled]

// compiledOf gives the same again for the same files.
func compiledOf(files []source) (*compiled, error) {
	last := lastCompiled.Load()
	if last != nil && slices.EqualFunc(files, last.files, source.equal) {
		return last, nil
	}
	modules, err := parse(files)
	if err != nil {
		return nil, err
	}
	c, err := compileModules(files, modules)
	if err != nil {
		return nil, err
	}
	lastCompiled.Store(c)
	return c, nil
}

func compileModules(files []source, modules map[string]*ast.Module) (*compiled, error) {
	if err := checkPackages(modules); err != nil {
		return nil, err
	}
	compiler, err := compile(modules)
	if err != nil {
		return nil, err
	}
	if err := checkDefined(compiler); err != nil {
		return nil, err
	}
	return &compiled{files, modules, compiler}, nil
}

// compile checks strictly: against the schemas, with the allowed functions only.
func compile(modules map[string]*ast.Module) (*ast.Compiler, error) {
	caps, err := capabilities()
	if err != nil {
		return nil, err
	}
	schemas, err := schemaSet()
	if err != nil {
		return nil, err
	}
	c := ast.NewCompiler().
		WithStrict(true).
		WithCapabilities(caps).
		WithSchemas(schemas).
		WithUseTypeCheckAnnotations(true)
	c.Compile(modules)
	if c.Failed() {
		errs := slices.Clone(c.Errors)
		return nil, fmt.Errorf("compile policies: %w", errs)
	}
	return c, nil
}

// capabilities and schemaSet read what is embedded, once: the compiler changes
// neither, and they are a quarter of a reload.
var capabilities = sync.OnceValues(func() (*ast.Capabilities, error) {
	b, err := library.Files.ReadFile("capabilities.json")
	if err != nil {
		return nil, err
	}
	caps, err := ast.LoadCapabilitiesJSON(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("rego/capabilities.json: %w", err)
	}
	caps.AllowNet = []string{}
	return caps, nil
})

var schemaSet = sync.OnceValues(func() (*ast.SchemaSet, error) {
	b, err := library.Files.ReadFile("schemas/input.json")
	if err != nil {
		return nil, err
	}
	schema, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("rego/schemas/input.json: %w", err)
	}
	set := ast.NewSchemaSet()
	set.Put(ast.SchemaRootRef, schema)
	set.Put(ast.MustParseRef("schema.input"), schema)
	return set, nil
})

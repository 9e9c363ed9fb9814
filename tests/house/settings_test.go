package house

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// readWhole are structs, by file, or fields, whose names no code reads, with the reason.
var readWhole = map[string]string{
	"hooks/input.go":       "a hook gets what the agent sends as it is",
	"config/explain.go":    "it is written as YAML",
	"tools/todo.go:Active": "models that were trained on another TodoWrite send it",
}

// aboutThemselves are functions that say whether settings are well formed, or what they name: a setting that only these
// read does nothing.
var aboutThemselves = regexp.MustCompile(`^(Check|check[A-Z].*|Trusts|Programs|Hides|idle|[dD]efaults|WithDefaults)$`)

// TestEachSettingIsRead: a key of the configuration, a field of a request's body and an argument of a tool that no code
// reads does nothing.
func TestEachSettingIsRead(t *testing.T) {
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
		packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo
	fset := token.NewFileSet()
	all, err := packages.Load(&packages.Config{
		Mode: mode, Dir: "../..", Fset: fset, BuildFlags: []string{"-trimpath"}, // as in the gate, which has compiled all so
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	f := &fields{fset: fset, settings: map[string]bool{}, read: map[string]bool{}, seen: map[types.Type]bool{}}
	for _, p := range all {
		if len(p.Errors) > 0 {
			t.Fatalf("%s: %v", p.PkgPath, p.Errors)
		}
		for _, file := range p.Syntax {
			f.declared(p.TypesInfo, file)
			for _, d := range file.Decls {
				if function, ok := d.(*ast.FuncDecl); !ok || !aboutThemselves.MatchString(function.Name.Name) {
					f.reads(p.TypesInfo, d)
				}
			}
		}
	}
	used := map[string]bool{}
	if len(f.settings) < 400 {
		t.Errorf("only %d settings are found", len(f.settings))
	}
	for _, setting := range slices.Sorted(maps.Keys(f.settings)) {
		file, rest, _ := strings.Cut(setting, ":")
		_, name, _ := strings.Cut(rest, ":")
		if reason := cmp.Or(readWhole[file], readWhole[file+":"+name]); f.read[setting] == (reason != "") && readWhole[file] == "" {
			t.Errorf("%s is read: %v", setting, f.read[setting])
		}
		used[file], used[file+":"+name] = true, true
	}
	for name := range readWhole {
		if !used[name] {
			t.Errorf("%s is no setting", name)
		}
	}
}

// fields are those of structs, as FILE:LINE:NAME: an object of another package is not the one of its source.
type fields struct {
	fset           *token.FileSet
	settings, read map[string]bool
	seen           map[types.Type]bool
}

func (f *fields) key(v types.Object) string {
	at := f.fset.Position(v.Pos())
	dir := filepath.Base(filepath.Dir(at.Filename))
	return fmt.Sprintf("%s/%s:%d:%s", dir, filepath.Base(at.Filename), at.Line, v.Name())
}

// declared finds the settings of a file.
func (f *fields) declared(info *types.Info, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			for _, field := range n.Fields.List {
				if field.Tag == nil || !tagged(strings.Trim(field.Tag.Value, "`"), "yaml") {
					continue
				}
				for _, name := range field.Names {
					f.settings[f.key(info.Defs[name])] = true
				}
			}
		case *ast.KeyValueExpr: // route.Spec{In: T{}}
			if name, ok := n.Key.(*ast.Ident); ok && name.Name == "In" {
				if v, ok := info.Uses[name].(*types.Var); ok && v.IsField() && v.Pkg().Name() == "route" {
					f.received(info.TypeOf(n.Value))
				}
			}
		case *ast.Ident: // tool.Decode[T]
			if n.Name == "Decode" && info.Instances[n].TypeArgs.Len() == 1 {
				f.received(info.Instances[n].TypeArgs.At(0))
			}
		}
		return true
	})
}

// received adds the fields of what somebody sends as JSON.
func (f *fields) received(t types.Type) {
	if f.seen[t] {
		return
	}
	f.seen[t] = true
	switch t := t.(type) {
	case *types.Named:
		if strings.HasPrefix(t.String(), "github.com/sandboxd/") {
			f.received(t.Underlying())
		}
	case *types.Pointer:
		f.received(t.Elem())
	case *types.Slice:
		f.received(t.Elem())
	case *types.Map:
		f.received(t.Elem())
	case *types.Struct:
		for i := range t.NumFields() {
			if tagged(t.Tag(i), "json") {
				f.settings[f.key(t.Field(i))] = true
			}
			f.received(t.Field(i).Type())
		}
	}
}

func tagged(tag, as string) bool {
	name, ok := reflect.StructTag(tag).Lookup(as)
	return ok && name != "-"
}

// reads notes the fields that a declaration reads; to set one is not to read it.
func (f *fields) reads(info *types.Info, d ast.Decl) {
	set := map[*ast.Ident]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if name, ok := n.Key.(*ast.Ident); ok {
				set[name] = true
			}
		case *ast.CallExpr: // T(v), where the two structs are alike
			if len(n.Args) == 1 && info.Types[n.Fun].IsType() {
				f.converted(info.TypeOf(n.Args[0]))
			}
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				if s, ok := to.(*ast.SelectorExpr); ok && n.Tok == token.ASSIGN {
					set[s.Sel] = true
				}
			}
		case *ast.Ident:
			if v, ok := info.Uses[n].(*types.Var); ok && v.IsField() && !set[n] {
				f.read[f.key(v.Origin())] = true
			}
		}
		return true
	})
}

// converted notes that a struct is read as another one of the same fields.
func (f *fields) converted(t types.Type) {
	if s, ok := t.Underlying().(*types.Struct); ok {
		for i := range s.NumFields() {
			f.read[f.key(s.Field(i))] = true
		}
	}
}

package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/dependencies"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// revision is one compiled state of everything that judges. It never changes
// after load.
type revision struct {
	id       string
	loaded   time.Time
	packages []judgedPackage        // in the order of their names
	replaces bool                   // a rule replaces a part of the input: p with input.mode as "plan"
	masks    rego.PreparedEvalQuery // what the record of decisions leaves out
	rules    []RuleInfo
	disabled map[string]bool
	counts   bool            // a rule reads input.recent
	requests bool            // a rule reads what differs between requests of a connection
	changes  bool            // a rule reads input.changes
	names    map[string]bool // ids that are known before any call, so that they can be counted apart
	index    permission.Index

	workspaces []workspace
	coverage   *cover.Cover // nil but in Test
}

// judgedPackage is one package whose findings count.
type judgedPackage struct {
	name      string
	query     rego.PreparedEvalQuery
	prefilter prefilter
	reads     input.Fields
	requests  bool // they read the method or the path of a connection
}

// readBy returns all that the rules of a package read, and the rules they use.
func readBy(c *ast.Compiler, query string) ([]ast.Ref, error) {
	body, err := ast.ParseBody(query)
	if err != nil {
		return nil, err
	}
	return dependencies.Base(c, body)
}

// fields returns the fields of the input among refs; nil is all of them.
func fields(refs []ast.Ref) input.Fields {
	out := input.Fields{}
	for _, ref := range refs {
		if !ref[0].Equal(ast.InputRootDocument) {
			continue
		}
		if len(ref) == 1 {
			return nil
		}
		name, ok := ref[1].Value.(ast.String)
		if !ok {
			return nil
		}
		out[string(name)] = true
	}
	return out
}

// replacesInput reports whether any rule replaces a part of the input.
func replacesInput(c *ast.Compiler) (yes bool) {
	for _, m := range c.Modules {
		ast.WalkWiths(m, func(w *ast.With) bool {
			ref, ok := w.Target.Value.(ast.Ref)
			yes = yes || ok && ref[0].Equal(ast.InputRootDocument)
			return false
		})
	}
	return yes
}

// RuleInfo describes one rule that can give findings.
type RuleInfo struct {
	ID          string `json:"id"`
	Effect      Effect `json:"effect,omitempty"`
	Package     string `json:"package,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	File        string `json:"file"`
	Line        int    `json:"line"`
}

// load reads, checks and compiles everything that opts name, and runs the
// examples and the tests of the operator's rules. Those of the library run in its tests: it
// cannot change without them.
func load(ctx context.Context, opts Options, before *revision) (*revision, error) {
	r, modules, err := loadModules(ctx, opts, before)
	if err != nil {
		return nil, err
	}
	if err := r.checkExamples(ctx, opts.Facts, modules, operatorFile); err != nil {
		return nil, err
	}
	if err := checkTests(ctx, opts, modules); err != nil {
		return nil, err
	}
	return r, nil
}

func loadModules(ctx context.Context, opts Options, before *revision) (*revision, map[string]*ast.Module, error) {
	if err := opts.check(); err != nil {
		return nil, nil, err
	}
	files, err := readSources(opts)
	if err != nil {
		return nil, nil, err
	}
	c, err := compiledOf(files)
	if err != nil {
		return nil, nil, err
	}
	r, err := newRevision(ctx, opts, c, before)
	return r, c.modules, err
}

func newRevision(ctx context.Context, opts Options, c *compiled, before *revision) (*revision, error) {
	data, err := permission.Tables(opts.Rules)
	if err != nil {
		return nil, err
	}
	r := &revision{
		loaded: time.Now(), disabled: map[string]bool{}, index: permission.NewIndex(data),
		replaces: replacesInput(c.compiler),
	}
	if r.rules, err = ruleInfos(c.modules); err != nil {
		return nil, err
	}
	if err := r.disable(opts.Disable); err != nil {
		return nil, err
	}
	names, err := judged(c.modules, opts.Profile)
	if err != nil {
		return nil, err
	}
	if r.packages, err = prepareAll(ctx, c.compiler, names, data); err != nil {
		return nil, err
	}
	if r.masks, err = prepare(ctx, c.compiler, "data."+maskPackage+".mask", newStore(nil)); err != nil {
		return nil, err
	}
	r.counts = slices.ContainsFunc(r.packages, func(p judgedPackage) bool {
		return p.reads == nil || p.reads["recent"]
	})
	r.requests = slices.ContainsFunc(r.packages, func(p judgedPackage) bool { return p.requests })
	r.names = namesOf(r.rules, opts.Rules)
	var old []workspace
	if before != nil {
		old = before.workspaces
	}
	r.workspaces = loadWorkspaces(ctx, c.compiler, opts.workspaces(), old)
	r.changes = len(r.workspaces) > 0 || slices.ContainsFunc(r.packages, func(p judgedPackage) bool {
		return p.reads == nil || p.reads["changes"]
	})
	r.id = revisionID(c.files, opts, r.workspaces)
	return r, nil
}

// prepareAll prepares one query for each package, so that those which a prefilter shows
// to be silent cost nothing.
func prepareAll(ctx context.Context, c *ast.Compiler, names []string, data map[string]any) ([]judgedPackage, error) {
	store := newStore(data)
	out := make([]judgedPackage, len(names))
	for i, name := range names {
		text := "data." + name + ".findings"
		q, err := prepare(ctx, c, text, store)
		if err != nil {
			return nil, err
		}
		refs, err := readBy(c, text)
		if err != nil {
			return nil, fmt.Errorf("find what %s reads: %w", name, err)
		}
		g, err := newPrefilter(c, text)
		if err != nil {
			return nil, fmt.Errorf("find what %s needs: %w", name, err)
		}
		out[i] = judgedPackage{name, q, g, fields(refs), seesRequests(refs)}
	}
	return out, nil
}

// newStore holds permission rules; nobody writes to it again.
func newStore(rules map[string]any) storage.Store {
	return inmem.NewFromObjectWithOpts(
		map[string]any{"sandboxd": map[string]any{"rules": rules}},
		inmem.OptRoundTripOnWrite(false), inmem.OptReturnASTValuesOnRead(true))
}

func prepare(ctx context.Context, c *ast.Compiler, query string, store storage.Store) (rego.PreparedEvalQuery, error) {
	q, err := rego.New(
		rego.Query(query), rego.Compiler(c), rego.Store(store), rego.StrictBuiltinErrors(true),
	).PrepareForEval(ctx)
	if err != nil {
		return q, fmt.Errorf("prepare the rules: %w", err)
	}
	return q, nil
}

func (o Options) check() error {
	if !slices.Contains(Profiles, o.Profile) {
		return fmt.Errorf("unknown policy profile %q: want one of %s, %s, %s",
			o.Profile, ProfileDeveloper, ProfileObserve, ProfileStrict)
	}
	if o.Verdict != "" && o.Verdict != callback.VerdictAdvisory && o.Verdict != callback.VerdictFinal {
		return fmt.Errorf("unknown policyVerdict %q: want %s or %s",
			o.Verdict, callback.VerdictAdvisory, callback.VerdictFinal)
	}
	for _, p := range o.Policies {
		if _, err := p.Policy(); err != nil {
			return err
		}
	}
	return nil
}

// judged lists the packages whose findings count. The observe profile reads the
// developer rules itself.
func judged(modules map[string]*ast.Module, profile Profile) ([]string, error) {
	has := map[string]bool{}
	for file, m := range modules {
		name := strings.TrimPrefix(m.Package.Path.String(), "data.")
		if !strings.HasPrefix(name, "sandboxd.policies.") {
			continue
		}
		if ownPackage(name, string(ProfileDeveloper)) && profile == ProfileObserve {
			continue
		}
		has[name] = has[name] || false
		for _, r := range m.Rules {
			if r.Head.Ref().String() != "findings" && r.Head.Name != "findings" {
				continue
			}
			if r.Head.RuleKind() != ast.MultiValue {
				return nil, fmt.Errorf("%s:%d: findings must be a partial set: findings contains {…} if {…}", file,
					r.Location.Row)
			}
			has[name] = true
		}
	}
	var out []string
	for name, ok := range has {
		if strings.HasSuffix(name, ".lib") {
			if ok {
				return nil, fmt.Errorf(
					"package %s has findings, but packages named lib are for helpers and never asked", name,
				)
			}
			continue
		}
		if !ok {
			return nil, fmt.Errorf("package %s has no findings, so it would judge nothing", name)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out, nil
}

// ownPackage reports whether a package is one of the library's with this owner.
func ownPackage(pkg, owner string) bool {
	return strings.HasPrefix(pkg, "sandboxd.policies."+owner+".")
}

// DisableError is an id in Options.Disable that cannot be switched off.
type DisableError struct{ ID, Why string }

func (e *DisableError) Error() string { return "disable: " + e.Why }

// disable switches rules of a profile off. Core rules cannot be.
func (r *revision) disable(ids []string) error {
	var errs []error
	for _, id := range ids {
		i := slices.IndexFunc(r.rules, func(x RuleInfo) bool { return x.ID == id })
		switch {
		case i < 0:
			errs = append(errs, &DisableError{id, fmt.Sprintf("no rule has the id %q", id)})
		case ownPackage(r.rules[i].Package, "core"):
			errs = append(errs, &DisableError{id, fmt.Sprintf("%q is a core rule, which cannot be switched off", id)})
		default:
			r.disabled[id] = true
		}
	}
	return errors.Join(errs...)
}

func (r *revision) withoutDisabled(fs []Finding) []Finding {
	if len(r.disabled) == 0 {
		return fs
	}
	return slices.DeleteFunc(fs, func(f Finding) bool { return r.disabled[f.ID] })
}

// namesOf returns the ids of rules that are written out, and of permission rules.
func namesOf(rules []RuleInfo, permissions permission.Rules) map[string]bool {
	out := map[string]bool{}
	for _, r := range rules {
		out[r.ID] = true
	}
	for effect, list := range map[Effect][]string{
		EffectAllow: permissions.Allow, EffectAsk: permissions.Ask, EffectDeny: permissions.Deny,
	} {
		for _, rule := range list {
			out[string(effect)+" "+rule] = true
		}
	}
	return out
}

// computedName is what rules are counted as whose id is computed: a model could make any
// number of ids.
const computedName = "other"

// counted returns the names under which findings are counted, each once.
func (r *revision) counted(fs []Finding) []string {
	var out []string
	for _, f := range fs {
		name := f.ID
		if !r.names[name] {
			name = computedName
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// revisionID returns a hash of everything that can change a decision.
func revisionID(files []source, opts Options, workspaces []workspace) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %d\n", f.name, len(f.text))
		h.Write(f.text)
	}
	enc := json.NewEncoder(h)
	_ = enc.Encode(opts.Rules) // strings and lists only; a hash takes every write
	_ = enc.Encode([]any{opts.Profile, opts.Disable, opts.Policies, opts.Verdict, opts.RelaxReads, input.Version})
	for _, w := range workspaces {
		_ = enc.Encode([]any{w.Root, w.rules})
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// checkDefined refuses a reference below data that no rule defines. It would be undefined in
// every call, and a deny that needs it would never hold: no data is loaded beside the rules.
// Tests may say data.x with "with", so they are left out.
func checkDefined(c *ast.Compiler) error {
	for _, file := range slices.Sorted(maps.Keys(c.Modules)) {
		if strings.HasPrefix(file, libraryPrefix) || isTest(file) {
			continue
		}
		var err error
		for _, rule := range c.Modules[file].Rules {
			ast.WalkRefs(rule, func(ref ast.Ref) bool {
				if err == nil && !defined(c, ref) {
					err = fmt.Errorf("%s:%d: %v is defined nowhere, so that what needs it never holds: write the "+
						"values as a rule of a package; files with data are not loaded",
						file, ref[0].Location.Row, ref.ConstantPrefix())
				}
				return false
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// permissionTables is where the compiled permission rules are.
var permissionTables = ast.MustParseRef("data.sandboxd.rules")

func defined(c *ast.Compiler, ref ast.Ref) bool {
	if !ref.HasPrefix(ast.DefaultRootRef) || ref.HasPrefix(permissionTables) {
		return true
	}
	node := c.RuleTree
	for _, term := range ref.ConstantPrefix() {
		if node = node.Child(term.Value); node == nil {
			return false
		}
		if len(node.Values) > 0 { // the rest is a part of its value
			return true
		}
	}
	return true
}

// isData reports whether other programs load a file as data beside the rules.
func isData(name string) bool {
	base := filepath.Base(name)
	return base == "data.json" || base == "data.yaml" || base == "data.yml"
}

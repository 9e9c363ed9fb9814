package catalog

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Registry knows every tool and who may use which: the groups, the defaults of
// new sessions, and the tools that come with any other.
//
// A registered tool is on and its group is off (T-04); [Defaults] and the
// overrides of a [tool.Session] change both.
//
//	r := catalog.NewRegistry(files, shell)
//	r.SetDefaults(catalog.Defaults{AllGroups: true})
//	r.Inject(readVar, listVars)
//	t, err := r.Lookup(session, "Read")
type Registry struct {
	validator Validator

	mu          sync.RWMutex // guards what follows
	groups      []Group      // in order of registration
	owner       map[string]string
	tools       map[string]tool.Tool
	injected    []tool.Tool
	defaults    Defaults
	permissions map[string]Permission
	finder      string          // the tool that brings deferred ones
	deferred    map[string]bool // by tool name

	allow, deny []string // of Restrict
	warnings    []string
}

// Defaults is what a new session has on before its own overrides (T-34).
type Defaults struct {
	AllGroups bool            // every group that Groups does not name is on
	Groups    map[string]bool // by group name
	Tools     map[string]bool // by tool name; a tool that is not named is on
}

// NewRegistry returns a registry of these groups, all of them off.
func NewRegistry(groups ...Group) *Registry {
	r := &Registry{owner: map[string]string{}, tools: map[string]tool.Tool{}}
	for _, g := range groups {
		r.Register(g)
	}
	return r
}

// Restrict keeps tools out that are not on the allow list, if there is one, or are
// on the deny list: they are registered by no later call, so no session has them
// (P-22).
func (r *Registry) Restrict(allow, deny []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allow, r.deny = allow, deny
}

// Register adds a group, or replaces the one of the same name. A tool whose name
// is taken replaces the older one and leaves a warning (T-02). A group without
// tools has a prompt or rules; one that has nothing, or whose tools are all kept
// out, is ignored.
func (r *Registry) Register(g Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(g.Name)
	had := len(g.Tools) > 0
	g.Tools = Filter(g.Tools, r.allow, r.deny)
	if g.Of == nil && len(g.Tools) == 0 && (had || len(g.Rules) == 0 && g.RulePrompt == nil) {
		return
	}
	for _, t := range g.Tools {
		name := t.Spec().Name
		if old, taken := r.owner[name]; taken {
			r.warnings = append(r.warnings,
				fmt.Sprintf("tool %q of group %q replaces the one of group %q", name, g.Name, old))
		}
		r.owner[name], r.tools[name] = g.Name, t
	}
	r.groups = append(r.groups, g)
}

// drop forgets a group and the tools that are still its own.
func (r *Registry) drop(group string) {
	for i, g := range r.groups {
		if g.Name != group {
			continue
		}
		r.groups = append(r.groups[:i:i], r.groups[i+1:]...)
		for name, owner := range r.owner {
			if owner == group {
				delete(r.owner, name)
				delete(r.tools, name)
			}
		}
		return
	}
}

// SetDefaults sets what sessions have on unless they say otherwise.
func (r *Registry) SetDefaults(d Defaults) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.defaults = d
}

// SetDeferred names the tools whose definitions a model gets only when it looks for
// them with the tool finder (T-50). They can be called all the same.
func (r *Registry) SetDeferred(finder string, names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finder, r.deferred = finder, map[string]bool{}
	for _, name := range names {
		r.deferred[name] = true
	}
}

// Inject names the tools that a session has as soon as it has any other, whatever their own group says
// (V-18), unless it was started without them or its skills do not let it.
func (r *Registry) Inject(tools ...tool.Tool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.injected = append(r.injected, Filter(tools, r.allow, r.deny)...)
}

// Warnings lists what registration found odd.
func (r *Registry) Warnings() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return append([]string(nil), r.warnings...)
}

// Groups returns the registered groups in order.
func (r *Registry) Groups() []Group {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return append([]Group(nil), r.groups...)
}

// Lookup finds an enabled tool by its exact name. The error is an [*tool.Error] with
// code tool_not_found, tool_disabled or skill_restricted.
func (r *Registry) Lookup(s tool.Session, name string) (tool.Tool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if t, _, ok := r.own(s, name); ok && switched(s, r.defaults, name) {
		return let(s, t)
	}
	if t, ok := r.tools[name]; ok && r.enabled(s, name) {
		return let(s, t)
	}
	for _, t := range r.injected {
		if t.Spec().Name == name && r.anyEnabled(s) && s.MayHave(name) {
			return let(s, t)
		}
	}
	if !s.May(name) {
		return nil, NotGiven(name)
	}
	group, known := r.owner[name]
	if _, of, own := r.own(s, name); own {
		group, known = of, true
	}
	if known {
		return nil, &tool.Error{
			Code: "tool_disabled", Stage: "lookup",
			Msg:  fmt.Sprintf("Tool %s not found: it is disabled in this session", name),
			Hint: fmt.Sprintf("an operator can enable the tool, or its group %s", group),
		}
	}
	return nil, &tool.Error{
		Code: "tool_not_found", Stage: "lookup", Msg: "Tool " + name + " not found", Hint: r.suggest(s, name),
	}
}

// NotGiven returns the error of a tool that the agents which started a session did not let it have.
func NotGiven(name string) *tool.Error {
	return &tool.Error{
		Code: "tool_disabled", Stage: "lookup",
		Msg:  fmt.Sprintf("Tool %s not found: this agent was started without it", name),
		Hint: "use a tool of this session's list, or answer what is missing; agents that were started start none",
	}
}

// Known reports whether any tool has a name, in any case and in any session: one of the registry (not
// of [Group].Of), or one that skills speak of.
func (r *Registry) Known(name string) bool {
	if tool.NamedBySkills(name) {
		return true
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for known := range r.owner {
		if strings.EqualFold(known, name) {
			return true
		}
	}
	return slices.ContainsFunc(r.injected, func(t tool.Tool) bool { return strings.EqualFold(t.Spec().Name, name) })
}

// let returns a tool that is on, if the skills that run in the session let it be called.
func let(s tool.Session, t tool.Tool) (tool.Tool, error) {
	if name := t.Spec().Name; !s.Lets(name) {
		return nil, s.SkillRestricted(name, nil)
	}
	return t, nil
}

// Enabled returns the tools of a session that its skills let be called, sorted by name,
// injected ones included (T-06).
func (r *Registry) Enabled(s tool.Session) []tool.Tool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	byName := map[string]tool.Tool{}
	for name, t := range r.tools {
		if r.enabled(s, name) {
			byName[name] = t
		}
	}
	maps.Insert(byName, r.alone(s))
	if len(byName) > 0 {
		for _, t := range r.injected {
			if name := t.Spec().Name; byName[name] == nil && s.MayHave(name) {
				byName[name] = t
			}
		}
	}
	list := make([]tool.Tool, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if s.Lets(name) {
			list = append(list, byName[name])
		}
	}
	return list
}

// Listed is Enabled without the tools that are deferred in this session: a search
// has not brought them, and there is a tool to search with.
func (r *Registry) Listed(s tool.Session) []tool.Tool {
	list := r.Enabled(s)
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.DeleteFunc(list, func(t tool.Tool) bool { return r.isDeferred(s, t.Spec().Name) })
}

// Deferred reports whether a tool is deferred in a session.
func (r *Registry) Deferred(s tool.Session, name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.isDeferred(s, name)
}

func (r *Registry) isDeferred(s tool.Session, name string) bool {
	return r.deferred[name] && r.enabled(s, r.finder) && !slices.Contains(s.Found, name)
}

// GroupEnabled reports whether a group is on in a session; an unknown one is not.
func (r *Registry) GroupEnabled(s tool.Session, group string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.groupEnabled(s, group)
}

// ToolEnabled reports whether the settings of a session have a tool on, whatever its group is (T-04); an
// unknown one is not, nor one of [Group].Of. It does not look at the sessions above.
func (r *Registry) ToolEnabled(s tool.Session, name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.toolEnabled(s, name)
}

// ToggleGroup returns the session's overrides with one group set, or flipped
// when on is nil (T-05). The session itself is not changed.
func (r *Registry) ToggleGroup(s tool.Session, group string, on *bool) (map[string]bool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.hasGroup(group) {
		return nil, &tool.Error{Code: "group_not_found", Msg: fmt.Sprintf("group %q not found", group)}
	}
	state := !r.groupEnabled(s, group)
	if on != nil {
		state = *on
	}
	return with(s.Groups, group, state), nil
}

// SetTool returns the session's overrides with one tool set (T-05).
func (r *Registry) SetTool(s tool.Session, name string, on bool) (map[string]bool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, known := r.owner[name]
	if _, _, own := r.own(s, name); !own && !known {
		return nil, &tool.Error{Code: "tool_not_found", Msg: "Tool " + name + " not found"}
	}
	return with(s.Tools, name, on), nil
}

func with(m map[string]bool, key string, value bool) map[string]bool {
	c := make(map[string]bool, len(m)+1)
	for k, v := range m {
		c[k] = v
	}
	c[key] = value
	return c
}

func (r *Registry) hasGroup(group string) bool {
	for _, g := range r.groups {
		if g.Name == group {
			return true
		}
	}
	return false
}

func (r *Registry) groupEnabled(s tool.Session, group string) bool {
	if !r.hasGroup(group) {
		return false
	}
	if on, said := s.Groups[group]; said {
		return on
	}
	if on, said := r.defaults.Groups[group]; said {
		return on
	}
	return r.defaults.AllGroups
}

func (r *Registry) toolEnabled(s tool.Session, name string) bool {
	if _, known := r.owner[name]; !known {
		return false
	}
	return switched(s, r.defaults, name)
}

// switched reports whether a tool that there is is on, whatever its group is. It is off with what it is another name
// of.
func switched(s tool.Session, d Defaults, name string) bool {
	if as := tool.As(name); as != "" && !switched(s, d, as) {
		return false
	}
	if on, said := s.Tools[name]; said {
		return on
	}
	if on, said := d.Tools[name]; said {
		return on
	}
	return true
}

// own finds a tool that the session has beside those of all sessions, and its group: it has none that one above it
// has not.
func (r *Registry) own(s tool.Session, name string) (t tool.Tool, group string, ok bool) {
	for _, g := range r.groups {
		if t, ok := r.ofGroup(g, s)[name]; ok && r.lets(t) {
			return t, g.Name, true
		}
	}
	return nil, "", false
}

// ofGroup returns the tools that a group has in a session alone.
func (r *Registry) ofGroup(g Group, s tool.Session) map[string]tool.Tool {
	if g.Of == nil || !r.groupEnabled(s, g.Name) {
		return nil
	}
	own := g.Of(s)
	if len(s.Above) == 0 {
		return own
	}
	kept := map[string]tool.Tool{}
	for name, t := range own {
		lost := func(up tool.Session) bool {
			_, has := g.Of(up)[name]
			return !has || !r.groupEnabled(up, g.Name) || !switched(up, r.defaults, name)
		}
		if s.May(name) && !slices.ContainsFunc(s.Above, lost) {
			kept[name] = t
		}
	}
	return kept
}

// lets reports whether Restrict lets a tool be.
func (r *Registry) lets(t tool.Tool) bool {
	return len(r.allow)+len(r.deny) == 0 || len(Filter([]tool.Tool{t}, r.allow, r.deny)) == 1
}

// enabled reports whether a session has a tool: it does not if one above it lost it.
func (r *Registry) enabled(s tool.Session, name string) bool {
	own := func(s tool.Session) bool { return r.toolEnabled(s, name) && r.groupEnabled(s, r.owner[name]) }
	for _, up := range s.Above {
		if !own(up) {
			return false
		}
	}
	as := tool.As(name)
	return own(s) && s.May(name) && (as == "" || s.MayHave(as))
}

// alone has the enabled tools that a session has beside those of all sessions.
func (r *Registry) alone(s tool.Session) iter.Seq2[string, tool.Tool] {
	return func(yield func(string, tool.Tool) bool) {
		for _, g := range r.groups {
			for name, t := range r.ofGroup(g, s) {
				if switched(s, r.defaults, name) && r.lets(t) && !yield(name, t) {
					return
				}
			}
		}
	}
}

// anyEnabled reports whether a session has any tool that is not injected.
func (r *Registry) anyEnabled(s tool.Session) bool {
	for name := range r.tools {
		if r.enabled(s, name) {
			return true
		}
	}
	for range r.alone(s) {
		return true
	}
	return false
}

// suggest names the enabled tool that was probably meant: the spelling of other
// agents differs in case and underscores.
func (r *Registry) suggest(s tool.Session, name string) string {
	plain := func(n string) string { return strings.ToLower(strings.ReplaceAll(n, "_", "")) }
	for have := range r.tools {
		if plain(have) == plain(name) && r.enabled(s, have) {
			return "names are exact: use " + have
		}
	}
	return "use a name from the list of this session's tools"
}

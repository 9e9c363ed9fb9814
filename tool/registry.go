package tool

import (
	"fmt"
	"sort"
	"strings"
	"sync"
)

// Registry knows every tool and who may use which: the groups, the defaults of
// new sessions, and the tools that come with any other.
//
// A registered tool is on and its group is off (T-04); [Defaults] and the
// overrides of a [Session] change both.
//
//	r := tool.NewRegistry(files, shell)
//	r.SetDefaults(tool.Defaults{AllGroups: true})
//	r.Inject(readVar, listVars)
//	t, err := r.Lookup(session, "Read")
type Registry struct {
	validator Validator

	mu          sync.RWMutex // guards what follows
	groups      []Group      // in order of registration
	owner       map[string]string
	tools       map[string]Tool
	injected    []Tool
	defaults    Defaults
	permissions map[string]Permission

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
	r := &Registry{owner: map[string]string{}, tools: map[string]Tool{}}
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
// is taken replaces the older one and leaves a warning (T-02); an empty group is
// ignored.
func (r *Registry) Register(g Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(g.Name)
	g.Tools = Filter(g.Tools, r.allow, r.deny)
	if len(g.Tools) == 0 && len(g.Rules) == 0 {
		return
	}
	for _, t := range g.Tools {
		name := t.Spec().Name
		if old, taken := r.owner[name]; taken {
			r.warnings = append(r.warnings, fmt.Sprintf("tool %q of group %q replaces the one of group %q", name, g.Name, old))
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

// Inject names the tools that every session has as soon as it has any other,
// whatever their own group says (V-18).
func (r *Registry) Inject(tools ...Tool) {
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

// Lookup finds an enabled tool by its exact name. The error is an [*Error] with
// code tool_not_found or tool_disabled.
func (r *Registry) Lookup(s Session, name string) (Tool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if t, ok := r.tools[name]; ok && r.enabled(s, name) {
		return t, nil
	}
	for _, t := range r.injected {
		if t.Spec().Name == name && r.anyEnabled(s) {
			return t, nil
		}
	}
	if group, known := r.owner[name]; known {
		return nil, &Error{
			Code: "tool_disabled", Stage: "lookup",
			Msg:  fmt.Sprintf("Tool %s not found: it is disabled in this session", name),
			Hint: fmt.Sprintf("an operator can enable the tool, or its group %s", group),
		}
	}
	return nil, &Error{Code: "tool_not_found", Stage: "lookup", Msg: "Tool " + name + " not found", Hint: r.suggest(s, name)}
}

// Enabled returns the tools of a session, sorted by name, injected ones included
// (T-06).
func (r *Registry) Enabled(s Session) []Tool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	byName := map[string]Tool{}
	for name, t := range r.tools {
		if r.enabled(s, name) {
			byName[name] = t
		}
	}
	if len(byName) > 0 {
		for _, t := range r.injected {
			if _, have := byName[t.Spec().Name]; !have {
				byName[t.Spec().Name] = t
			}
		}
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	sort.Strings(names)
	list := make([]Tool, len(names))
	for i, name := range names {
		list[i] = byName[name]
	}
	return list
}

// GroupEnabled reports whether a group is on in a session; an unknown one is not.
func (r *Registry) GroupEnabled(s Session, group string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.groupEnabled(s, group)
}

// ToolEnabled reports whether a tool is on in a session, whatever its group is
// (T-04); an unknown one is not.
func (r *Registry) ToolEnabled(s Session, name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.toolEnabled(s, name)
}

// ToggleGroup returns the session's overrides with one group set, or flipped
// when on is nil (T-05). The session itself is not changed.
func (r *Registry) ToggleGroup(s Session, group string, on *bool) (map[string]bool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.hasGroup(group) {
		return nil, &Error{Code: "group_not_found", Msg: fmt.Sprintf("group %q not found", group)}
	}
	state := !r.groupEnabled(s, group)
	if on != nil {
		state = *on
	}
	return with(s.Groups, group, state), nil
}

// SetTool returns the session's overrides with one tool set (T-05).
func (r *Registry) SetTool(s Session, name string, on bool) (map[string]bool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if _, known := r.owner[name]; !known {
		return nil, &Error{Code: "tool_not_found", Msg: "Tool " + name + " not found"}
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

func (r *Registry) groupEnabled(s Session, group string) bool {
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

func (r *Registry) toolEnabled(s Session, name string) bool {
	if _, known := r.owner[name]; !known {
		return false
	}
	if on, said := s.Tools[name]; said {
		return on
	}
	if on, said := r.defaults.Tools[name]; said {
		return on
	}
	return true
}

func (r *Registry) enabled(s Session, name string) bool {
	return r.toolEnabled(s, name) && r.groupEnabled(s, r.owner[name])
}

func (r *Registry) anyEnabled(s Session) bool {
	for name := range r.tools {
		if r.enabled(s, name) {
			return true
		}
	}
	return false
}

// suggest names the enabled tool that was probably meant: the spelling of other
// agents differs in case and underscores.
func (r *Registry) suggest(s Session, name string) string {
	plain := func(n string) string { return strings.ToLower(strings.ReplaceAll(n, "_", "")) }
	for have := range r.tools {
		if plain(have) == plain(name) && r.enabled(s, have) {
			return "names are exact: use " + have
		}
	}
	return "use a name from the list of this session's tools"
}

package skills

import (
	"net/http"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

func (f *feature) routes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /sessions/{id}/skills", Role: tool.RoleAgent, Handle: f.list,
			Spec: route.Spec{
				ID: "listSkills", Summary: "The skills of a session; a text for prompts; or what is no skill, and why",
				Query: []route.Param{{Name: "format", Enum: []string{"prompt", "ignored"}}},
				Out:   route.OneOf{[]Skill{}, promptText{}, []Ignored{}},
			},
		},
		{
			Pattern: "GET /sessions/{id}/skills/{name}", Role: tool.RoleAgent, Handle: f.show,
			Spec: route.Spec{
				ID: "getSkill", Summary: "A skill, by name or alias, with its prompt, into which arguments are put",
				Query: []route.Param{{Name: "arguments"}}, Out: Skill{},
			},
		},
		{
			Pattern: "GET /sessions/{id}/skills/running", Role: tool.RoleAgent, Handle: f.running,
			Spec: route.Spec{ID: "runningSkills", Summary: "The skills that run, the innermost last", Out: []running{}},
		},
		{
			Pattern: "POST /sessions/{id}/skills/end", Role: tool.RoleAgent, Handle: f.end,
			Spec: route.Spec{
				ID: "endSkill", Summary: "End the innermost skill that runs", In: struct{}{}, Out: endedSkill{},
			},
		},
	}
}

type promptText struct {
	Text string `json:"text"`
}

// running is a skill on the stack of a session.
type running struct {
	Skill        string   `json:"skill"`
	AllowedTools []string `json:"allowed_tools"` // tools that can be called meanwhile; null: every tool
	Model        *string  `json:"model"`
}

// endedSkill is the answer to a request that ends a skill.
type endedSkill struct {
	Ended   *string   `json:"ended"` // name of the skill; null: none was running
	Running []running `json:"running"`
}

// places returns the session of a request and the places of its skills. They are read with the rights of the caller.
func (f *feature) places(r *http.Request) (tool.Session, Places, error) {
	s, err := f.host.Session(r)
	me := route.CallerOf(r)
	return s, f.where(sandbox.NewUser(me.UID, me.GID, me.Groups, me.Name, me.Home)), err
}

func (f *feature) list(r *http.Request) (any, error) {
	s, places, err := f.places(r)
	if err != nil {
		return nil, err
	}
	set := f.library.Of(s.Dir, places)
	switch r.FormValue("format") {
	case "prompt":
		return promptText{set.List()}, nil
	case "ignored":
		return append(append([]Ignored{}, places.off(s.Dir)...), set.Ignored...), nil
	}
	return set.Skills, nil
}

func (f *feature) show(r *http.Request) (any, error) {
	s, places, err := f.places(r)
	if err != nil {
		return nil, err
	}
	set := f.library.Of(s.Dir, places)
	k, known := set.Find(r.PathValue("name"))
	if !known {
		return nil, notFound(set, r.PathValue("name"))
	}
	text, err := k.prompt()
	if args, given := r.URL.Query()["arguments"]; given {
		text = with(text, args[0])
	}
	k.Prompt = &text
	return k, err
}

func (f *feature) running(r *http.Request) (any, error) {
	s, err := f.host.Session(r)
	return stack(s), err
}

// stack returns the skills on the stack of a session.
func stack(s tool.Session) []running {
	out := []running{}
	for i, k := range s.Skills {
		around := tool.Session{Skills: s.Skills[:i+1]}
		out = append(out, running{k.Name, around.Allowed(), opt(k.Model)})
	}
	return out
}

func (f *feature) end(r *http.Request) (any, error) {
	if err := route.Read(r, &struct{}{}); err != nil {
		return nil, err
	}
	name, s, err := f.pop(r.Context(), route.CallerOf(r).Account, r.PathValue("id"))
	return endedSkill{opt(name), stack(s)}, err
}

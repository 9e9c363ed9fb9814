package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/skills/front"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// skillTool is the tool Skill, which begins a skill in the session.
type skillTool struct{ f *feature }

type skillArgs struct {
	Skill string `json:"skill"`
	Args  string `json:"args"`
}

// Spec implements [tool.Tool].
func (skillTool) Spec() tool.Spec {
	return tool.Spec{
		Name: tool.SkillTool,
		Description: "Begins a skill: returns its instructions, which you then follow. While it runs, only the tools " +
			"that it lists can be called, and Skill. The system prompt lists the skills.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"skill":{"type":"string","minLength":1,"maxLength":256,"description":"its name, or an alias"},
"args":{"type":"string","maxLength":100000,"description":"what the skill is told"}},
"required":["skill"],"additionalProperties":false}`),
		Class: tool.ClassState, Annotations: &tool.Annotations{},
		OutputLimit: 100_000,
		Returns:     &tool.Returns{Type: "string", Note: "written by whoever wrote the skill"},
	}
}

// Uses implements [tool.Tool]. The file of a workspace skill is judged like any other file.
func (t skillTool) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	_, k, err := t.find(in)
	if err != nil || k.Source != Workspace {
		return guard.Uses{}, err
	}
	raw := filepath.Join(k.place.dir, fileName)
	path, err := in.Rules.Resolve(raw, in.Dir, in.Home)
	return guard.Uses{Paths: []guard.PathUse{{Raw: raw, Path: path, Op: guard.Read}}}, err
}

// find returns the skill that a call names.
func (t skillTool) find(in tool.In) (skillArgs, Skill, error) {
	args, err := tool.Decode[skillArgs](in)
	if err != nil {
		return args, Skill{}, err
	}
	set := t.f.set(in.Dir)
	k, known := set.Find(strings.TrimPrefix(args.Skill, "/"))
	switch {
	case !known:
		return args, k, notFound(set, args.Skill)
	case !k.Available:
		return args, k, &tool.Error{
			Code: "skill_not_available", Msg: fmt.Sprintf("Skill %q is not available in this directory", k.Name),
			Hint: "it needs a test framework that it knows: go.mod, Cargo.toml, Package.swift, pytest.ini, " +
				"jest.config.* or vitest.config.*",
		}
	case k.restrictsSkill():
		return args, k, &tool.Error{
			Code: "skill_restricts_skill",
			Msg:  fmt.Sprintf("Skill %q names Skill in allowed-tools, which no skill may", k.Name),
			Hint: "take Skill out of allowed-tools in its SKILL.md: it can always be called",
		}
	}
	return args, k, nil
}

func notFound(set Set, name string) error {
	var names []string
	for _, k := range set.Skills {
		if k.Available && len(names) < 50 {
			names = append(names, k.Name)
		}
	}
	return &tool.Error{
		Code: "skill_not_found", Msg: fmt.Sprintf("Skill %.100q not found", name),
		Hint: "there are: " + strings.Join(names, ", "),
	}
}

// began is the part of the result that only clients get.
type began struct {
	Success         bool     `json:"success"`
	CommandName     string   `json:"command_name"`
	Prompt          string   `json:"prompt"`
	AllowedTools    []string `json:"allowed_tools"` // tools that can be called now; null: every tool
	Model           *string  `json:"model"`
	BaseDir         *string  `json:"base_dir"`
	SupportingFiles []string `json:"supporting_files"`
}

// Run implements [tool.Tool].
func (t skillTool) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, k, err := t.find(in)
	if err != nil {
		return tool.Output{}, err
	}
	prompt, err := t.prompt(ctx, in, box, k)
	if err != nil {
		return tool.Output{}, err
	}
	s, err := t.f.push(ctx, in, k)
	if err != nil {
		return tool.Output{}, err
	}
	out := began{
		Success: true, CommandName: k.Name, Prompt: with(prompt, args.Args), AllowedTools: s.Allowed(),
		Model: k.Model, BaseDir: k.BaseDir, SupportingFiles: k.SupportingFiles,
	}
	return tool.Output{Data: out, Text: out.text(k), Origin: k.Source.origin()}, nil
}

// prompt reads the text of a skill. That of a workspace skill is read through the box, as it was judged.
func (t skillTool) prompt(ctx context.Context, in tool.In, box sandbox.Box, k Skill) (string, error) {
	if k.Source != Workspace {
		return k.prompt()
	}
	raw := filepath.Join(k.place.dir, fileName)
	if len(in.Judged.Paths) != 1 || in.Judged.Paths[0].Raw != raw {
		return "", &tool.Error{Code: "skill_changed", Msg: "another skill has this name now", Hint: "call it again"}
	}
	f, err := box.Open(ctx, in.Judged.Paths[0], syscall.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, front.MaxFile))
	return k.body(string(b)), err
}

// text returns the text for the model.
func (b began) text(k Skill) string {
	var s strings.Builder
	fmt.Fprintf(&s, "Skill %s (%s).", b.CommandName, k.Source)
	if k.Replaces != "" {
		fmt.Fprintf(&s, " The repository wrote it: it takes the place of %s of its name.", k.Replaces.skill())
	}
	if b.AllowedTools != nil {
		fmt.Fprintf(&s, " Until it ends, these can be called: %s.",
			strings.Join(append(b.AllowedTools, tool.SkillTool), ", "))
	}
	if b.BaseDir != nil {
		fmt.Fprintf(&s, "\nBase directory: %s", *b.BaseDir)
	}
	if n := len(b.SupportingFiles); n > 0 {
		shown := b.SupportingFiles[:min(n, 100)]
		fmt.Fprintf(&s, "\nSupporting files, read them when needed: %s", strings.Join(shown, ", "))
		if n > len(shown) {
			fmt.Fprintf(&s, " and %d more", n-len(shown))
		}
	}
	s.WriteString("\n\n" + b.Prompt)
	return s.String()
}

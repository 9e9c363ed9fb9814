package tool

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// As returns our tool that does what the other agent's tool does, or "". A rule that denies our tool, or asks about it,
// also does so to that tool; a rule that allows does not allow it.
func As(name string) string { return otherNames[name] }

var otherNames = map[string]string{
	"exec_command": "Bash", "write_stdin": "TaskInput", "BashOutput": "TaskOutput", "KillShell": "TaskStop",
}

// fieldAs is a field of a tool that [As] knows.
type fieldAs struct {
	own, as string // as: its name at the other tool; "": that one has no such field
	dir     bool   // it names the directory in which the call runs
}

// fieldsAs returns the fields of such a tool that the other tool names differently or lacks.
func fieldsAs(name string) []fieldAs {
	switch name {
	case "exec_command":
		return []fieldAs{
			{own: "cmd", as: "command"},
			{own: "workdir", dir: true},
			{own: "yield_time_ms"},
			{own: "max_output_tokens"},
		}
	case "write_stdin":
		return []fieldAs{
			{own: "session_id", as: "task_id"},
			{own: "chars", as: "text"},
			{own: "yield_time_ms"},
			{own: "max_output_tokens"},
		}
	case "BashOutput":
		return []fieldAs{{own: "bash_id", as: "task_id"}}
	case "KillShell":
		return []fieldAs{{own: "shell_id", as: "task_id"}}
	}
	return nil
}

// ArgsAs returns the arguments of a tool as the tool that [As] names has them, so that who knows only that one
// understands the call. Fields that it lacks keep their names. Arguments that are no object stay as they are.
func ArgsAs(name string, args json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) != nil || fields == nil {
		return args
	}
	for _, f := range fieldsAs(name) {
		if f.as == "" {
			continue
		}
		delete(fields, f.as) // the tool has no such field: it must not hide the one that counts
		if value, ok := fields[f.own]; ok {
			delete(fields, f.own)
			fields[f.as] = value
		}
	}
	return encoded(fields)
}

// ArgsFrom turns changed back into arguments for the tool. was is the answer of [ArgsAs] that the author of changed
// saw. Fields that our tool lacks stay as they were where changed does not have them. A field under both of its names
// is an error.
func ArgsFrom(name string, changed, was json.RawMessage) (json.RawMessage, error) {
	var fields, shown map[string]json.RawMessage
	if err := json.Unmarshal(changed, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf("the arguments for %s are not an object", name)
	}
	_ = json.Unmarshal(was, &shown) // what is no object had no fields
	for _, f := range fieldsAs(name) {
		if f.as == "" {
			if _, given := fields[f.own]; !given && shown[f.own] != nil {
				fields[f.own] = shown[f.own]
			}
			continue
		}
		value, ok := fields[f.as]
		if !ok {
			continue
		}
		if _, both := fields[f.own]; both {
			return nil, fmt.Errorf("the arguments for %s have both %s and %s", name, f.as, f.own)
		}
		delete(fields, f.as)
		fields[f.own] = value
	}
	return encoded(fields), nil
}

// DirAs returns the directory in which a call of a tool that [As] knows runs, for people and programs: links are not
// followed. Any other call runs in dir.
func DirAs(name string, args json.RawMessage, dir, home string) string {
	i := slices.IndexFunc(fieldsAs(name), func(f fieldAs) bool { return f.dir })
	var fields map[string]json.RawMessage
	if i < 0 || json.Unmarshal(args, &fields) != nil {
		return dir
	}
	var named string
	if json.Unmarshal(fields[fieldsAs(name)[i].own], &named) != nil || named == "" {
		return dir
	}
	switch {
	case named == "~" || strings.HasPrefix(named, "~/"):
		return filepath.Join(home, named[1:])
	case filepath.IsAbs(named):
		return filepath.Clean(named)
	}
	return filepath.Join(dir, named)
}

// encoded returns an object of fields that were decoded.
func encoded(fields map[string]json.RawMessage) json.RawMessage {
	text, err := json.Marshal(fields)
	if err != nil {
		panic("decoded JSON cannot be encoded: " + err.Error()) // never
	}
	return text
}

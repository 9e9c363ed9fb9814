package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Bounds of a session's list.
const (
	maxTodos    = 200
	maxTodoText = 500
)

// TodoWrite keeps the model's list of open tasks in the session.
type TodoWrite struct{ sessions Sessions }

// todo is one task of the list.
type todo struct {
	ID       int    `json:"id"`
	Text     string `json:"text"`
	Status   string `json:"status"` // pending, in_progress, completed
	Priority string `json:"priority,omitempty"`
}

type todoArgs struct {
	Action   string `json:"action"`
	ID       int    `json:"id"`
	Text     string `json:"text"`
	Priority string `json:"priority"`
	Todos    []struct {
		Content  string `json:"content"`
		Status   string `json:"status"`
		Active   string `json:"activeForm"`
		Priority string `json:"priority"`
	} `json:"todos"`
}

// Spec implements [tool.Tool]. The tool counts as read-only, because the list is the model's own; so it can be used
// in plan mode, too.
func (TodoWrite) Spec() tool.Spec {
	return tool.Spec{
		Name: "TodoWrite",
		Description: "Keeps a list of things to do in this session and answers with it. " +
			"Either give the whole list as todos, or one action: " +
			"add (text, priority), toggle (id), remove (id), list, clear.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"action":{"type":"string","enum":["add","toggle","remove","list","clear"],
	"description":"one change; not together with todos"},
"id":{"type":"integer","description":"which one (toggle, remove)"},
"text":{"type":"string","maxLength":500,"description":"what is to do (add)"},
"priority":{"type":"string","enum":["high","medium","low"],"description":"default medium (add)"},
"todos":{"type":"array","maxItems":200,"description":"the whole new list","items":{"type":"object","properties":{
"content":{"type":"string","minLength":1,"maxLength":500},
"status":{"type":"string","enum":["pending","in_progress","completed"]},
"activeForm":{"type":"string","maxLength":500},
"priority":{"type":"string","enum":["high","medium","low"]}},
"required":["content","status"],"additionalProperties":false}}},
"additionalProperties":false}`),
		Class: tool.ClassState, ReadOnly: true,
		Annotations: &tool.Annotations{ReadOnly: true},
		Returns:     &tool.Returns{Type: "string", Note: "the list"},
	}
}

// Uses implements [tool.Tool].
func (TodoWrite) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

// Run implements [tool.Tool].
func (w TodoWrite) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[todoArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	if (args.Action == "") == (args.Todos == nil) {
		return tool.Output{}, &tool.Error{
			Code: "invalid_arguments", Msg: "give either action or todos", Hint: `such as {"action": "list"}`,
		}
	}
	var list []todo
	_, err = w.sessions.Patch(ctx, in.Account, in.Session, func(s *tool.Session) error {
		notes, err := openNotes(s)
		if err != nil {
			return err
		}
		if list, err = args.apply(notes.Todos); err != nil {
			return err
		}
		notes.Todos = list
		return notes.save(s)
	})
	if err != nil {
		return tool.Output{}, err
	}
	return tool.Output{Data: map[string]any{"todos": list}, Text: todoText(list)}, nil
}

// apply returns the list after one change.
func (a todoArgs) apply(list []todo) ([]todo, error) {
	if a.Todos != nil {
		list = make([]todo, len(a.Todos))
		for i, t := range a.Todos {
			list[i] = todo{i + 1, t.Content, t.Status, t.Priority}
		}
		return list, nil
	}
	switch a.Action {
	case "add":
		if strings.TrimSpace(a.Text) == "" {
			return nil, &tool.Error{
				Code: "invalid_arguments", Msg: `field "text" is missing`, Hint: "say what is to do",
			}
		}
		if len(list) >= maxTodos {
			return nil, &tool.Error{
				Code: "too_many_todos",
				Msg:  fmt.Sprintf("the list has %d entries, which is the most", maxTodos),
				Hint: "remove what is done",
			}
		}
		id := 1
		for _, t := range list {
			id = max(id, t.ID+1)
		}
		priority := a.Priority
		if priority == "" {
			priority = "medium"
		}
		return append(list, todo{id, cutText(a.Text, maxTodoText), "pending", priority}), nil
	case "clear":
		return []todo{}, nil
	case "list":
		return list, nil
	}
	for i := range list {
		if list[i].ID != a.ID {
			continue
		}
		if a.Action == "remove" {
			return append(list[:i:i], list[i+1:]...), nil
		}
		if list[i].Status == "completed" {
			list[i].Status = "pending"
		} else {
			list[i].Status = "completed"
		}
		return list, nil
	}
	return nil, &tool.Error{
		Code: "todo_not_found", Msg: fmt.Sprintf("there is no entry %d", a.ID),
		Hint: `{"action": "list"} shows them`,
	}
}

func cutText(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}

func todoText(list []todo) string {
	if len(list) == 0 {
		return "nothing to do"
	}
	var b strings.Builder
	for _, t := range list {
		mark := map[string]string{"completed": "x", "in_progress": "~"}[t.Status]
		if mark == "" {
			mark = " "
		}
		fmt.Fprintf(&b, "%d. [%s] %s", t.ID, mark, t.Text)
		if t.Priority == "high" || t.Priority == "low" {
			fmt.Fprintf(&b, " (%s)", t.Priority)
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// notes is what the tools of this group store in a session's metadata, beside what the client stores there.
type notes struct {
	Todos []todo `json:"todos,omitempty"`

	others map[string]json.RawMessage
}

const notesKey = "sandboxd"

func openNotes(s *tool.Session) (*notes, error) {
	n := &notes{others: map[string]json.RawMessage{}}
	if len(s.Metadata) == 0 || string(s.Metadata) == "null" {
		return n, nil
	}
	if err := json.Unmarshal(s.Metadata, &n.others); err != nil {
		return nil, &tool.Error{
			Code: "metadata_not_object",
			Msg:  "the metadata of this session is not an object, so that notes have no place in it",
			Hint: "the client has to make it an object",
		}
	}
	if raw, ok := n.others[notesKey]; ok && json.Unmarshal(raw, n) != nil {
		n.Todos = nil // the client overwrote it; only the agent uses this list, so an empty one does no harm
	}
	return n, nil
}

func (n *notes) save(s *tool.Session) error {
	raw, err := json.Marshal(n)
	if err != nil {
		return err
	}
	n.others[notesKey] = raw
	s.Metadata, err = json.Marshal(n.others)
	return err
}

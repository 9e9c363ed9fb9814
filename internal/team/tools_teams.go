package team

import (
	"context"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// teams returns the tools of teams and mailboxes.
func (f *feature) teams() catalog.Group {
	make := func(s tool.Spec, run func(context.Context, tool.In, tool.Session) (tool.Output, error)) tool.Tool {
		return one{s, run, f}
	}
	disband := changing("TeamDelete", "Disbands a team. Its members keep what is in their mailboxes.",
		`"id":{"type":"string","description":"id of the team, such as team_1"}`, `,"required":["id"]`)
	disband.Annotations.Destructive = true
	read := changing("ReadMailbox", "Returns the messages in the mailbox of this agent, and empties it.", "", "")
	read.OutputLimit, read.NoCache = outputLimit, false // what does not fit is in a variable
	return catalog.Group{Name: "teams", Tools: []tool.Tool{
		make(changing("TeamCreate", "Makes a team of agents, by their names. They need not run yet.",
			`"name":{"type":"string","minLength":1},
"members":{"type":"array","items":{"type":"string"},"description":"names of agents"},
"task_description":{"type":"string","description":"what the team is for"}`, `,"required":["name"]`), f.teamCreate),
		make(disband, f.teamDelete),
		make(changing("SendMessage", "Sends a message to an agent of a team of this agent, or to all of them.",
			`"to":{"type":"string","minLength":1,"description":"name of an agent, or * for all"},
"message":{"type":"string","minLength":1},
"type":{"type":"string",
	"description":"text (default), shutdownRequest, shutdownResponse or planApprovalResponse"}`,
			`,"required":["to","message"]`), f.sendMessage),
		make(read, f.readMailbox),
	}, RulePrompt: func([]string) string {
		return "Agents of a team send each other messages. Nobody is told of one: look with ReadMailbox when you " +
			"wait for an answer, and before you end."
	}}
}

func (f *feature) teamCreate(ctx context.Context, in tool.In, s tool.Session) (tool.Output, error) {
	args, err := tool.Decode[struct {
		Name    string   `json:"name"`
		Members []string `json:"members"`
		Task    string   `json:"task_description"`
	}](in)
	if err != nil {
		return tool.Output{}, err
	}
	t, err := f.store.CreateTeam(ctx, PlaceOf(s), args.Name, args.Task, args.Members)
	if err != nil {
		return tool.Output{}, err
	}
	return tool.Output{
		Data: t, Text: fmt.Sprintf(`Team created: %s "%s" with %d members`, t.ID, t.Name, len(t.Members)),
	}, nil
}

func (f *feature) teamDelete(ctx context.Context, in tool.In, s tool.Session) (tool.Output, error) {
	args, err := tool.Decode[struct{ ID string }](in)
	if err != nil {
		return tool.Output{}, err
	}
	t, err := f.store.DeleteTeam(ctx, PlaceOf(s), args.ID)
	return tool.Output{Data: t, Text: "Team disbanded: " + t.ID}, err
}

func (f *feature) sendMessage(ctx context.Context, in tool.In, s tool.Session) (tool.Output, error) {
	args, err := tool.Decode[Outgoing](in)
	if err != nil {
		return tool.Output{}, err
	}
	to, err := f.store.Send(ctx, PlaceOf(s), args, authors(in))
	if err != nil {
		return tool.Output{}, err
	}
	return tool.Output{Data: map[string]any{"to": to}, Text: "Message sent to " + listed(to)}, nil
}

func (f *feature) readMailbox(ctx context.Context, _ tool.In, s tool.Session) (tool.Output, error) {
	all, by, err := f.store.Take(ctx, PlaceOf(s))
	if err != nil {
		return tool.Output{}, err
	}
	var text strings.Builder
	for _, m := range all {
		fmt.Fprintf(&text, "[%s] %s to %s (%s): %s\n", m.Timestamp.Format("15:04:05"), oneLine(m.From), oneLine(m.To),
			m.Type, indented(m.Content))
	}
	if len(all) == 0 {
		text.WriteString("No messages.")
	}
	return tool.Output{Data: all, Text: strings.TrimSuffix(text.String(), "\n"), Origin: origin(by)}, nil
}

// indented indents all lines of a text except the first. A message begins at the start of a line, so an agent cannot
// write a text that looks like the message of another one.
func indented(text string) string { return strings.Join(lines(text), "\n    ") }

// oneLine returns a name: those of earlier versions may have any sign.
func oneLine(name string) string { return strings.Join(lines(name), " ") }

// lines are cut at all that somebody may take for the end of one.
func lines(text string) []string {
	ends := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n",
		"\u2029", "\n")
	return strings.Split(ends.Replace(text), "\n")
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/api"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/diskspace"
	"github.com/sandboxd/sandboxd/internal/projects"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// statusCmd returns the command that prints the status of the daemon.
func statusCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "status", Short: "Show the state of the daemon", Args: cobra.NoArgs,
		Long: `Shows what the daemon serves, which configuration and rules are in force, what holds
the sandbox on this host, and what waits for a person. What needs attention begins
with "!". The exit status is 0 when the daemon answers.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var raw json.RawMessage
			ask := func(socket string) error {
				return client.New(socket).Do(cmd.Context(), http.MethodGet, "/status", nil, &raw)
			}
			err := ask(agentSocket())
			if err != nil && ask(operatorSocket()) != nil { // an operator may have no right to use the agent socket
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), raw)
			}
			var s api.Status
			if err := json.Unmarshal(raw, &s); err != nil {
				return fmt.Errorf("read the answer of the daemon: %w", err)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), showStatus(s, screenOf(cmd)))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// joined returns an error of several lines as one line. Other invisible characters are escaped later.
func joined(s string) string {
	return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "; ")
}

func recordStatus(s audit.Status) string {
	text := fmt.Sprintf("%d lines, known beside the key up to %d", s.Line, s.Kept)
	if s.Anchor != nil {
		text += fmt.Sprintf(", anchored up to %d", s.Anchor.Line)
	}
	return text
}

// showDisk shows the free space for the record, and warnings about it.
func showDisk(u diskspace.Use, row, alarm func(label, text string)) {
	said := fmt.Sprintf("%s free, %s of them kept for the record; sessions keep %s", diskspace.Size(u.Free),
		diskspace.Size(u.Reserve), diskspace.Size(uint64(u.Files+u.Values)))
	if u.Low {
		alarm("disk", said+"; agents are refused until there is room")
	} else {
		row("disk", said)
	}
	if u.Full > 0 {
		alarm("", fmt.Sprintf("%d accounts keep too much and are refused; the log of the daemon names them", u.Full))
	}
	if u.Unheld != "" {
		alarm("", "the log and the database have no blocks in reserve: "+u.Unheld)
	}
}

// showProjects shows the directories of projects, the first one with a label.
func showProjects(said any, alone bool, row, alarm func(label, text string)) {
	all, err := as[[]projects.Status](said)
	if err != nil || len(all) == 0 && alone {
		alarm("projects", "none is allowed, so no session can start: sandboxd allow DIR")
		return
	}
	label := "projects"
	for _, p := range all {
		if p.Problem == "" {
			row(label, p.Dir)
		} else {
			alarm(label, p.Problem)
		}
		label = ""
	}
}

// inWords returns the status of a part in words: "mode auto, running 2". Numbers of bytes get a unit.
func inWords(said any) string {
	fields, err := as[map[string]any](said)
	if err != nil { // it is no object
		text, _ := json.Marshal(said) // it was decoded from JSON
		return string(text)
	}
	if len(fields) == 0 {
		return "off"
	}
	var words []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value := fields[key]
		if n, isNumber := value.(float64); isNumber && strings.HasSuffix(key, "bytes") {
			value = diskspace.Size(uint64(n))
		}
		words = append(words, strings.ReplaceAll(key, "_", " ")+" "+visible.Text(fmt.Sprint(value)))
	}
	return strings.Join(words, ", ")
}

// showStatus returns the status for people.
func showStatus(s api.Status, screen review.Screen) string {
	if !screen.Terminal {
		screen.Width = math.MaxInt32 // one line for each
	}
	var b strings.Builder
	row := func(label, text string) { screen.Row(&b, label, 11, text) }
	alarm := func(label, text string) { row(label, "! "+text) }
	up := time.Duration(s.Uptime) * time.Second
	b.WriteString(screen.Bold(fmt.Sprintf("sandboxd %s, up %s", visible.Text(s.Version), up)) + "\n")
	if len(s.Roots) > 0 {
		row("workspace", strings.Join(s.Roots, ", "))
	}
	showProjects(s.Parts["projects"], len(s.Roots) == 0, row, alarm)
	config := "defaults, no file"
	if s.Config.File != "" {
		config = s.Config.File + ", loaded " + s.Config.Loaded.Local().Format(time.DateTime)
	}
	row("config", config)
	if f := s.Config.Failure; f != nil {
		alarm("", fmt.Sprintf("what it holds now was refused at %s: %s", f.At.Local().Format(time.DateTime),
			joined(f.Error)))
	}
	if lacking := s.Config.Lacking; len(lacking) > 0 {
		alarm("", "the daemon lacks ids of accounts until a reload when no call runs, or a restart: "+
			strings.Join(lacking, ", "))
	}
	row("rules", fmt.Sprintf("profile %s, revision %s", s.Policy.Profile, s.Policy.Revision))
	if f := s.Policy.Failure; f != nil {
		alarm("", "what the files hold now could not be loaded: "+joined(f.Error))
	}
	row("sandbox", fmt.Sprintf("%s, profile %s: %s", s.Sandbox.Isolation, s.Sandbox.Profile,
		strings.Join(s.Sandbox.Layers, " ")))
	for _, missing := range s.Sandbox.Missing {
		alarm("", "missing: "+missing)
	}
	if s.RoleSplit == "enforced" {
		row("roles", "agent and daemon are different users")
	} else {
		alarm("roles", s.RoleSplit+": an agent outside the sandbox could answer its own questions; "+
			"docs/operations.md, who runs as whom")
	}
	switch {
	case s.Rights == "caller":
		row("rights", "tools have the rights of the user that calls")
	case s.RoleSplit == "enforced":
		alarm("rights", "tools have the rights of the daemon, whoever calls; docs/security.md, rights of tools")
	}
	questions := "none waits"
	if s.Pending > 0 {
		questions = fmt.Sprintf("%d waiting for a person: sandboxd approvals watch", s.Pending)
	}
	row("questions", questions)
	for _, name := range slices.Sorted(maps.Keys(s.Parts)) {
		text, err := json.Marshal(s.Parts[name])
		var record audit.Status
		var disk diskspace.Use
		switch {
		case err != nil || name == "projects":
		case name == "audit" && json.Unmarshal(text, &record) == nil:
			row("record", recordStatus(record))
			if a := record.Anchor; a != nil && a.Failing != "" {
				alarm("", "the record is not anchored: "+a.Failing)
			}
		case name == "disk" && json.Unmarshal(text, &disk) == nil:
			showDisk(disk, row, alarm)
		default:
			row(name, inWords(s.Parts[name]))
		}
	}
	return b.String()
}

// sayWaiting prints one line each time a call waits: for whom, how long, and the
// command that answers. The line begins with "waiting", for programs that read stderr.
func sayWaiting(out io.Writer) func(client.Progress) {
	return func(p client.Progress) {
		w := p.Waiting
		if w == nil {
			return
		}
		what, answer := "allow this call", "approve "+w.Approval
		switch w.Type {
		case "result":
			what = "let the model see the result"
		case "changes":
			what = "let what the call changed stay"
		case "connection":
			what = "let the call connect"
		case "question":
			what, answer = "answer the model", "answer "+w.Approval+" TEXT"
		}
		because := ""
		if len(w.Why) > 0 {
			because = " (" + visible.Text(w.Why[0].Message) + ")"
		}
		fmt.Fprintf(out, "waiting up to %s for an operator to %s%s; answer with: sandboxd approvals %s\n",
			w.Until.Sub(w.Asked).Round(time.Second), what, because, answer)
	}
}

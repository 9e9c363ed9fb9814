package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// sessionLine holds the fields of a session that are shown.
type sessionLine struct {
	client.Session
	Title       string    `json:"title"`
	Tag         string    `json:"tag"`
	Updated     time.Time `json:"updated_at"`
	Model       string    `json:"model,omitempty"`
	Summary     string    `json:"summary,omitempty"`
	FirstPrompt string    `json:"first_prompt,omitempty"`
	Messages    int       `json:"message_count"`
	Damaged     bool      `json:"transcript_damaged,omitempty"`
}

// about returns the subject of the conversation: the first line of its title, its summary or its first prompt.
func (s sessionLine) about() string {
	line, _, _ := strings.Cut(cmp.Or(s.Title, s.Summary, s.FirstPrompt), "\n")
	return line
}

// said returns the number of messages for a cell of a table, or "damaged".
func (s sessionLine) said() string {
	if s.Damaged {
		return "damaged"
	}
	return fmt.Sprint(s.Messages)
}

// count returns a number of messages in words.
func (s sessionLine) count() string {
	switch {
	case s.Damaged:
		return "messages that cannot be read"
	case s.Messages == 1:
		return "1 message"
	}
	return fmt.Sprintf("%d messages", s.Messages)
}

// sessionsCmd returns the command for sessions.
func sessionsCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "sessions", Short: "List, read, go on with and delete sessions",
		Long: `A session is a conversation: its directory, mode, tools and variables, and the messages
that its agent has saved. SESSION is its id.`,
	}
	c.AddCommand(sessionsListCmd(), sessionsShowCmd(), sessionsForkCmd(), sessionsResumeCmd(), sessionsExportCmd(),
		sessionsModeCmd(), sessionsDeleteCmd())
	return c
}

func sessionPath(id, tail string) string { return "/sessions/" + url.PathEscape(id) + tail }

// aboutWidth bounds the characters that a list shows of a session's subject.
const aboutWidth = 60

func sessionsListCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List sessions, the newest change first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var found []sessionLine
			err := client.New(agentSocket()).Do(
				cmd.Context(), http.MethodGet, "/sessions?limit=100&sort_by=updated_at", nil, &found,
			)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), found)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tMODE\tTAG\tDIRECTORY\tCHANGED\tMESSAGES\tABOUT")
			for _, s := range found {
				visible.Row(w, s.ID, s.Mode, s.Tag, s.Dir, s.Updated.Local().Format(time.DateTime), s.said(),
					review.Clip(s.about(), aboutWidth))
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func sessionsForkCmd() *cobra.Command {
	var id string
	var messages int
	c := &cobra.Command{
		Use: "fork SESSION", Short: "Make a session with the messages of another one, and print its id",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := map[string]any{}
			if cmd.Flags().Changed("id") {
				in["new_id"] = id
			}
			if cmd.Flags().Changed("messages") {
				in["up_to_message_index"] = messages
			}
			return sayID(cmd, sessionPath(args[0], "/fork"), in)
		},
	}
	c.Flags().StringVar(&id, "id", "", "the id of the new session (default one that nobody can guess)")
	c.Flags().IntVarP(&messages, "messages", "n", 0, "only the first so many messages (default all)")
	return c
}

func sessionsResumeCmd() *cobra.Command {
	var fork bool
	var at string
	c := &cobra.Command{
		Use: "resume [SESSION]", Short: "Go on with a session, and print its id", Args: cobra.MaximumNArgs(1),
		Long: `Prints the id of the session with which an agent goes on: SESSION, or the one that
changed last. Without any session it makes one here.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := map[string]any{}
			if len(args) > 0 {
				in["resume"] = args[0]
			} else {
				dir, err := os.Getwd()
				if err != nil {
					return err
				}
				in["continue_recent"], in["cwd"] = true, dir
			}
			if fork {
				in["fork"] = true
			}
			if cmd.Flags().Changed("at") {
				in["resume_at"] = at
			}
			return sayID(cmd, "/sessions", in)
		},
	}
	c.Flags().BoolVar(&fork, "fork", false, "go on in a copy")
	c.Flags().StringVar(&at, "at", "",
		"forget what was said after the message with this uuid or id; without --fork for good")
	return c
}

// sayID sends a request whose answer is a session, and prints the session's id.
func sayID(cmd *cobra.Command, path string, in any) error {
	var s sessionLine
	if err := client.New(agentSocket()).Do(cmd.Context(), http.MethodPost, path, in, &s); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), s.ID)
	fmt.Fprintf(cmd.ErrOrStderr(), "sandboxd: %s, mode %s, in %s\n", s.count(), s.Mode, s.Dir)
	return nil
}

func sessionsModeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "mode SESSION MODE", Short: "Set the permission mode of a session (operator)", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return client.New(operatorSocket()).Do(
				cmd.Context(), http.MethodPatch, sessionPath(args[0], ""), map[string]string{"mode": args[1]}, nil,
			)
		},
	}
}

func sessionsDeleteCmd() *cobra.Command {
	return &cobra.Command{
		Use: "delete SESSION...", Aliases: []string{"rm"},
		Short: "Delete sessions with their messages, variables and private files", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var failed error // an error for one session does not stop the others
			for _, id := range args {
				failed = errors.Join(failed,
					client.New(agentSocket()).Do(cmd.Context(), http.MethodDelete, sessionPath(id, ""), nil, nil))
			}
			return failed
		},
	}
}

func sessionsShowCmd() *cobra.Command {
	last := 0
	c := &cobra.Command{
		Use: "show SESSION", Short: "Print what was said in a session", Args: cobra.ExactArgs(1),
		Long: `Prints the messages of a session for people: texts, and the tools that were used. On a
terminal a long transcript stops at each screen; Enter goes on, q leaves.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			api := client.New(agentSocket())
			var s sessionLine
			if err := api.Do(cmd.Context(), http.MethodGet, sessionPath(args[0], ""), nil, &s); err != nil {
				return err
			}
			from := 0
			if last > 0 {
				from = max(0, s.Messages-last)
			}
			out := newPager(cmd)
			screen := screenOf(cmd)
			out.say(screen.Bold(visible.Text(cmp.Or(s.about(), s.ID))))
			changed := s.Updated.Local().Format(time.DateTime)
			line := fmt.Sprintf("%s in %s, %s, changed %s", s.ID, s.Dir, s.count(), changed)
			if s.Model != "" {
				line += ", " + s.Model
			}
			out.say(screen.Dim(visible.Text(line)))
			for m, err := range api.Messages(cmd.Context(), s.ID, from) {
				if err != nil {
					return err
				}
				if !sayMessage(out, screen, m) {
					return nil
				}
			}
			return nil
		},
	}
	c.Flags().IntVarP(&last, "last", "n", 0, "only the last so many messages (default all)")
	return c
}

// sayMessage prints one message. It returns false if the person has left.
func sayMessage(out *pager, screen review.Screen, raw json.RawMessage) bool {
	var m struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return out.say(screen.Red("a message that cannot be read: " + visible.Text(err.Error())))
	}
	if !out.say("") || !out.say(screen.Bold(visible.Text(m.Role))) {
		return false
	}
	for line := range strings.Lines(contentText(m.Content)) {
		if !out.say("  " + visible.Text(strings.TrimRight(line, "\n"))) {
			return false
		}
	}
	return true
}

// block is one part of a message's content.
type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Name    string          `json:"name"`    // if it is a tool call
	Input   json.RawMessage `json:"input"`   // if it is a tool call
	Content json.RawMessage `json:"content"` // if it is the result of a tool
}

// contentText returns a message's content for people: its texts, the tool calls and their results.
func contentText(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var blocks []block
	if json.Unmarshal(content, &blocks) != nil {
		return string(content)
	}
	var parts []string
	for _, b := range blocks {
		switch b.Type {
		case "text":
			parts = append(parts, b.Text)
		case "tool_use":
			var args bytes.Buffer
			if json.Compact(&args, b.Input) != nil {
				args.Reset()
			}
			parts = append(parts, "-> "+b.Name+" "+args.String())
		case "tool_result":
			parts = append(parts, "<- "+strings.ReplaceAll(contentText(b.Content), "\n", "\n   "))
		default:
			parts = append(parts, "["+b.Type+"]")
		}
	}
	return strings.Join(parts, "\n")
}

func sessionsExportCmd() *cobra.Command {
	return &cobra.Command{
		Use: "export SESSION", Short: "Print a session with its messages as JSON", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, out := client.New(agentSocket()), cmd.OutOrStdout()
			var s json.RawMessage
			if err := api.Do(cmd.Context(), http.MethodGet, sessionPath(args[0], ""), nil, &s); err != nil {
				return err
			}
			// If the transcript cannot be read, the first page says so; then nothing is printed.
			head, end := fmt.Sprintf("{\"metadata\":%s,\n\"messages\":[\n", s), ""
			for m, err := range api.Messages(cmd.Context(), args[0], 0) {
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(out, "%s%s%s", head, end, m); err != nil {
					return err
				}
				head, end = "", ",\n"
			}
			_, err := io.WriteString(out, head+"\n]}\n")
			return err
		},
	}
}

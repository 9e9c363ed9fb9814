package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/visible"
)

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

// sayMessage prints one message; false if the person has left.
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

// block is a part of a content.
type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Name    string          `json:"name"`    // of a tool
	Input   json.RawMessage `json:"input"`   // of a tool
	Content json.RawMessage `json:"content"` // of the result of a tool
}

// contentText is a content for people: its texts, which tools were used and what they answered.
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
			// The first page may say that the transcript cannot be read: nothing is printed then.
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

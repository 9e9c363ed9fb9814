package review

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
)

func TestListsAreTablesThatTextCannotBreak(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hostile := "ls\n\x1b[31m\tapr_FAKE"
	args, err := json.Marshal(map[string]string{"command": hostile})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		print func(*strings.Builder) error
		want  []string
	}{
		{"no questions", func(b *strings.Builder) error { return PrintItems(b, nil, now) }, []string{"no questions"}},
		{
			"nothing remembered", func(b *strings.Builder) error { return PrintGrants(b, nil) },
			[]string{"nothing is remembered"},
		},
		{"questions", func(b *strings.Builder) error {
			return PrintItems(b, []approvals.Item{
				{
					ID: "apr_1", Status: approvals.StatusPending, Tool: "Bash", Args: args,
					ExpiresAt: now.Add(90 * time.Second),
				},
				{
					ID: "apr_2", Status: approvals.StatusRefused, Tool: hostile,
					Args: json.RawMessage(`{"command":"` + strings.Repeat("x", 500) + `"}`),
				},
				{
					ID: "apr_3", Status: approvals.StatusApproved, Tool: "Bash", Args: args,
					EditedArgs: json.RawMessage(`{"command":"ls edited"}`),
				},
			}, now)
		}, []string{
			"ID     STATUS    LEFT   TOOL",
			"apr_1  pending   1m30s  Bash",
			"apr_2  refused   -      ls\\u{a}",
			"apr_3  approved  -      Bash",
		}},
		{"grants", func(b *strings.Builder) error {
			return PrintGrants(b, []approvals.Grant{
				{
					ID: "grt_1", Scope: "session", SessionID: "ses_1", Tool: "Bash", Args: args, Dir: "/src",
					Approved: true, Author: "ann", ExpiresAt: now, Hits: 3, RunsAs: "uid 7",
				},
				{
					ID: "grt_2", Scope: "always", Tool: "Write", Args: json.RawMessage(`{}`), Dir: hostile,
					Author: hostile, ExpiresAt: now,
				},
			})
		}, []string{
			"ID     ANSWER  SCOPE          USED",
			"grt_1  allow   session ses_1  3     ann",
			"grt_2  refuse  always         0",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := tt.print(&b); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
			if len(lines) != len(tt.want) {
				t.Fatalf("got %d lines, want %d:\n%s", len(lines), len(tt.want), b.String())
			}
			for i, line := range lines {
				if !strings.HasPrefix(line, tt.want[i]) || strings.ContainsAny(line, "\x1b\t\r") {
					t.Errorf("line %d is %q, want it to begin with %q", i, line, tt.want[i])
				}
			}
		})
	}
	edited := approvals.Item{Args: args, EditedArgs: json.RawMessage(`{"command":"ls edited"}`)}
	if got := Summary(edited); got != "ls edited" {
		t.Errorf("got %q, want the edit", got)
	}
}

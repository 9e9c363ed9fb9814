package review_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func Example() {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	item := approvals.Item{
		ID: "apr_1", Type: approvals.TypeExecution, Status: approvals.StatusPending, SessionID: "ses_1",
		RunsAs: "uid 1001, gid 1001",
		Tool:   "Bash", Args: json.RawMessage(`{"command": "git push --force\u001b[2J"}`),
		Why:       []tool.Reason{{Rule: "core.git_push_force", Message: "this rewrites history of the remote"}},
		Waiting:   1,
		ExpiresAt: now.Add(5 * time.Minute),
	}
	fmt.Print(review.Render(item, now, review.Screen{Width: 80}))
	// Output:
	// == Bash: may this call run?
	//   id       apr_1
	//   session  ses_1
	//   rights   those of uid 1001, gid 1001
	//   command:
	//     git push --force\u{1b}[2J
	//         ^^^^
	//   why      this rewrites history of the remote (core.git_push_force)
	//   waits    5m0s more, then it is refused
}

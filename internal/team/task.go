package team

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Status is the state of a task.
type Status string

// The statuses. The last three are final.
const (
	Pending    Status = "pending"
	InProgress Status = "inProgress"
	Completed  Status = "completed"
	Failed     Status = "failed"
	Cancelled  Status = "cancelled"
)

// Statuses are all of them.
var Statuses = []Status{Pending, InProgress, Completed, Failed, Cancelled}

// ParseStatus reads a status, also in the spelling in_progress.
func ParseStatus(text string) (Status, error) {
	if text == "in_progress" {
		return InProgress, nil
	}
	if s := Status(text); slices.Contains(Statuses, s) {
		return s, nil
	}
	return "", bad(fmt.Sprintf("unknown status %.40q", text),
		"a status is pending, inProgress, completed, failed or cancelled")
}

// Final reports whether no other status follows.
func (s Status) Final() bool { return s != Pending && s != InProgress }

// Task is a piece of work.
type Task struct {
	ID          string            `json:"id"`
	Subject     string            `json:"subject"`
	Description string            `json:"description,omitempty"`
	Status      Status            `json:"status"`
	Owner       string            `json:"owner,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	Output      string            `json:"output,omitempty"`
	BlockedBy   []string          `json:"blocked_by,omitempty"` // tasks; declared, and nothing more
	Blocks      []string          `json:"blocks,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`

	number  int64
	authors provenance.Authors
}

// line returns the task in a list.
func (t Task) line() string {
	s := fmt.Sprintf("[%s] %s - %s", t.ID, strings.ToUpper(string(t.Status)), t.Subject)
	if t.Owner != "" {
		s += fmt.Sprintf(" (owner: %s)", t.Owner)
	}
	return s
}

// What one space, and a task of it, may hold.
const (
	maxTasks    = 10_000
	maxSubject  = 1000
	maxOwner    = 256
	maxText     = 64 << 10 // of a description, and of an output
	maxLinks    = 1000
	maxMetadata = 16 << 10
)

// check refuses fields that are too large or no valid text.
func (t Task) check() error {
	if strings.TrimSpace(t.Subject) == "" {
		return bad("subject is empty", "say in a few words what is to be done")
	}
	if strings.ContainsAny(t.Subject+t.Owner, "\r\n") {
		return bad("subject and owner are one line each", "longer text belongs into the description")
	}
	size := 0
	for k, v := range t.Metadata {
		size += len(k) + len(v)
	}
	for _, f := range []struct {
		name    string
		n, most int
	}{
		{"subject", len(t.Subject), maxSubject},
		{"owner", len(t.Owner), maxOwner},
		{"description", len(t.Description), maxText},
		{"output", len(t.Output), maxText},
		{"metadata", size, maxMetadata},
	} {
		if f.n > f.most {
			return bad(fmt.Sprintf("%s has %d bytes, %d at most", f.name, f.n, f.most),
				"keep long text in a file or a variable")
		}
	}
	for _, s := range []string{t.Subject, t.Owner, t.Description, t.Output} {
		if !utf8.ValidString(s) || strings.Contains(s, "\x00") {
			return bad("a text of the task is not UTF-8, or has a zero byte", "")
		}
	}
	for name, list := range map[string][]string{"blocked_by": t.BlockedBy, "blocks": t.Blocks} {
		if len(list) > maxLinks {
			return bad(fmt.Sprintf("%s has %d tasks, %d at most", name, len(list), maxLinks), "")
		}
		for _, id := range list {
			if _, err := numberOf("task_", id); err != nil {
				return bad(fmt.Sprintf("%s: %.40q is no id of a task", name, id), "ids are task_1, task_2, …")
			}
		}
	}
	return nil
}

// numberOf reads an id such as task_7.
func numberOf(prefix, id string) (int64, error) {
	text, ok := strings.CutPrefix(id, prefix)
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || n < 1 || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("%.40q is no id", id)
	}
	return n, nil
}

// Change is a change of a task; nil fields stay as they are.
type Change struct {
	Subject     *string            `json:"subject,omitempty"`
	Description *string            `json:"description,omitempty"`
	Status      *string            `json:"status,omitempty"`
	Owner       *string            `json:"owner,omitempty"`
	Output      *string            `json:"output,omitempty"`
	BlockedBy   *[]string          `json:"blocked_by,omitempty"`
	Blocks      *[]string          `json:"blocks,omitempty"`
	Metadata    *map[string]string `json:"metadata,omitempty"`
	// Expect lists the values that the task must have; otherwise nothing changes.
	Expect *Expect `json:"expect,omitempty"`
}

// Expect is the state that the caller believes a task to have; nil fields may have any value. The owner "" means
// that nobody owns the task.
type Expect struct {
	Status *string `json:"status,omitempty"`
	Owner  *string `json:"owner,omitempty"`
}

// apply changes a task, or returns why the change is not allowed.
func (c Change) apply(t *Task) error {
	if e := c.Expect; e != nil {
		if err := e.check(*t); err != nil {
			return err
		}
	}
	if c.Status != nil {
		next, err := ParseStatus(*c.Status)
		if err != nil {
			return err
		}
		if t.Status.Final() {
			return &tool.Error{
				Code: "invalid_status_transition",
				Msg:  fmt.Sprintf("Cannot transition task from %s to %s", t.Status, next),
				Hint: "completed, failed and cancelled are final; make another task",
			}
		}
		t.Status = next
	}
	set(&t.Subject, c.Subject)
	set(&t.Description, c.Description)
	set(&t.Owner, c.Owner)
	set(&t.Output, c.Output)
	set(&t.BlockedBy, c.BlockedBy)
	set(&t.Blocks, c.Blocks)
	set(&t.Metadata, c.Metadata)
	return t.check()
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (e Expect) check(t Task) error {
	changed := func(what, is, want string) error {
		return &tool.Error{
			Code: "task_changed", Msg: fmt.Sprintf("%s is not as expected: its %s is %q, not %q", t.ID, what, is, want),
			Hint: "somebody else changed it; read it again, or take another task",
		}
	}
	if e.Status != nil {
		want, err := ParseStatus(*e.Status)
		if err != nil {
			return err
		}
		if want != t.Status {
			return changed("status", string(t.Status), string(want))
		}
	}
	if e.Owner != nil && *e.Owner != t.Owner {
		return changed("owner", t.Owner, *e.Owner)
	}
	return nil
}

func bad(msg, hint string) error {
	return &tool.Error{Code: "validation_error", Msg: msg, Hint: hint}
}

func taskNotFound(id string) error {
	return &tool.Error{
		Code: "task_not_found", Msg: fmt.Sprintf("Task not found: %.100s", id),
		Hint: "TaskList lists the tasks; ids are task_1, task_2, …",
	}
}

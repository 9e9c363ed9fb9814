package hooks

import (
	"fmt"
	"slices"
	"strings"
)

// Event is a moment at which hooks run.
type Event string

// The events (H-01).
const (
	PreToolUse         Event = "preToolUse"
	PostToolUse        Event = "postToolUse"
	PostToolUseFailure Event = "postToolUseFailure"
	SessionStart       Event = "sessionStart"
	SessionEnd         Event = "sessionEnd"
	Stop               Event = "stop"
	SubagentStart      Event = "subagentStart"
	SubagentStop       Event = "subagentStop"
	UserPromptSubmit   Event = "userPromptSubmit"
	PermissionRequest  Event = "permissionRequest"
	PermissionDenied   Event = "permissionDenied"
	TaskCreated        Event = "taskCreated"
	TaskCompleted      Event = "taskCompleted"
	ConfigChange       Event = "configChange"
	CwdChanged         Event = "cwdChanged"
	FileChanged        Event = "fileChanged"
	NotificationEvent  Event = "notification"
	PreCompact         Event = "preCompact"
	PostCompact        Event = "postCompact"
	TeammateIdle       Event = "teammateIdle"
	Setup              Event = "setup"
	WorktreeCreate     Event = "worktreeCreate"
	WorktreeRemove     Event = "worktreeRemove"
)

// Events is every event there is, in the order of [Registry.List].
var Events = []Event{
	PreToolUse, PostToolUse, PostToolUseFailure, SessionStart, SessionEnd, Stop, SubagentStart, SubagentStop,
	UserPromptSubmit, PermissionRequest, PermissionDenied, TaskCreated, TaskCompleted, ConfigChange, CwdChanged,
	FileChanged, NotificationEvent, PreCompact, PostCompact, TeammateIdle, Setup, WorktreeCreate, WorktreeRemove,
}

// ParseEvent reads the name of an event, also with the capital that other agents
// give it ("PreToolUse").
func ParseEvent(name string) (Event, error) {
	e := Event(name)
	if name != "" {
		e = Event(strings.ToLower(name[:1]) + name[1:])
	}
	if !slices.Contains(Events, e) {
		return "", fmt.Errorf("unknown hook event %q", name)
	}
	return e, nil
}

// pascal returns the name of the event in the contract of other agents.
func (e Event) pascal() string { return strings.ToUpper(string(e[:1])) + string(e[1:]) }

// toolless reports whether an event is about no tool, so that no matcher matches it.
func (e Event) toolless() bool {
	switch e {
	case SessionStart, SessionEnd, ConfigChange, NotificationEvent:
		return true
	}
	return false
}

// ignores says why the daemon does nothing with an answer to this event, or "" if it uses the answer.
func (e Event) ignores(a FailureAction) string {
	switch e {
	case SessionStart, SessionEnd, PermissionDenied, FileChanged, CwdChanged, NotificationEvent:
		return "it tells of what has happened"
	case PostToolUse, PostToolUseFailure, ConfigChange:
		if a == FailAsk {
			return "nobody is asked then"
		}
	}
	return ""
}

// canBlock reports whether a block prevents something at this event. After a call a block can only withhold the result,
// so a hook that fails there does not block. At TaskCompleted it prevents something only where a client tells the event
// and waits for the answer: the daemon tells it of a task that is stored already.
func (e Event) canBlock() bool {
	switch e {
	case PreToolUse, PermissionRequest, UserPromptSubmit, ConfigChange, TaskCreated, TaskCompleted, PreCompact,
		WorktreeCreate, SubagentStart:
		return true
	}
	return false
}

// Seen reports whether the daemon sees an event happen by itself. Of these events, clients may send those that are
// Reportable. They may send all others, some of which the daemon fires too (part.Host.Fire).
func (e Event) Seen() bool {
	switch e {
	case PreToolUse, PostToolUse, PostToolUseFailure, SessionStart, SessionEnd, PermissionRequest, PermissionDenied,
		ConfigChange, CwdChanged, FileChanged, NotificationEvent:
		return true
	}
	return false
}

// Reportable reports whether a client may send the event: the end of a call that another agent has made itself, or the
// end of an agent's work in a session that stays. Hooks see that a client has sent it.
func (e Event) Reportable() bool {
	return e == PostToolUse || e == PostToolUseFailure || e == SessionEnd
}

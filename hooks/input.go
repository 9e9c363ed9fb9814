package hooks

import (
	"encoding/json"

	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Input is the JSON that a hook receives (H-08). Empty fields are absent.
type Input struct {
	Event    Event  `json:"event"`
	ToolName string `json:"toolName,omitempty"`
	// CalledAs is the name by which the model called the tool, where it is another name of ToolName: exec_command of
	// Bash. ToolInput has the fields of ToolName then, and so may UpdatedInput. [Registry.Fire] sets it.
	CalledAs              string          `json:"calledAs,omitempty"`
	ToolInput             json.RawMessage `json:"toolInput,omitempty"`
	ToolOutput            string          `json:"toolOutput,omitempty"`
	ToolUseID             string          `json:"toolUseId,omitempty"`
	SessionID             string          `json:"sessionId,omitempty"`
	Cwd                   string          `json:"cwd,omitempty"`
	Error                 string          `json:"error,omitempty"`
	TranscriptPath        string          `json:"transcriptPath,omitempty"`
	PermissionMode        string          `json:"permissionMode,omitempty"`
	AgentID               string          `json:"agentId,omitempty"`
	AgentType             string          `json:"agentType,omitempty"`
	TaskID                string          `json:"taskId,omitempty"` // taskCreated, taskCompleted
	TaskSubject           string          `json:"taskSubject,omitempty"`
	TeammateName          string          `json:"teammateName,omitempty"` // teammateIdle
	TeamName              string          `json:"teamName,omitempty"`     // likewise
	WorktreePath          string          `json:"worktreePath,omitempty"` // worktreeCreate, worktreeRemove
	StopHookActive        bool            `json:"stopHookActive,omitempty"`
	LastAssistantMessage  string          `json:"lastAssistantMessage,omitempty"`
	Trigger               string          `json:"trigger,omitempty"`
	CustomInstructions    string          `json:"customInstructions,omitempty"`
	PermissionSuggestions json.RawMessage `json:"permissionSuggestions,omitempty"`
	IsInterrupt           bool            `json:"isInterrupt,omitempty"`
	AgentTranscriptPath   string          `json:"agentTranscriptPath,omitempty"`
	Prompt                string          `json:"prompt,omitempty"`
	Message               string          `json:"message,omitempty"` // of a notification
	Title                 string          `json:"title,omitempty"`
	FilePath              string          `json:"filePath,omitempty"` // fileChanged
	DurationMS            int64           `json:"durationMs,omitempty"`
	// Changes lists the files that the call changed and that were not undone, as its answer does. Only postToolUse and
	// postToolUseFailure have it.
	Changes      []tool.Change `json:"changes,omitempty"`
	ChangesTotal int           `json:"changesTotal,omitempty"` // how many there are, if some are left out
	// Reported says that a client reported the call, or the end of its work. The daemon did not see it, so the report
	// is only as reliable as the client.
	Reported bool `json:"reported,omitempty"`
}

// snakeInput repeats the fields that the hooks of other agents read, under the
// names they know, so that such a hook runs here unchanged.
type snakeInput struct {
	HookEventName  string          `json:"hook_event_name"`
	ToolName       string          `json:"tool_name,omitempty"`
	CalledAs       string          `json:"called_as,omitempty"`
	ToolInput      json.RawMessage `json:"tool_input,omitempty"`
	ToolResponse   string          `json:"tool_response,omitempty"`
	ToolUseID      string          `json:"tool_use_id,omitempty"`
	SessionID      string          `json:"session_id,omitempty"`
	PermissionMode string          `json:"permission_mode,omitempty"`
	TranscriptPath string          `json:"transcript_path,omitempty"`
	AgentID        string          `json:"agent_id,omitempty"`
	AgentType      string          `json:"agent_type,omitempty"`
}

// encode returns the JSON for commands and endpoints. The arguments have one spelling, whatever the model wrote: a hook
// that looks for a text must not miss "\u006dake", nor the daemon write > as an escape.
func (in Input) encode() ([]byte, error) {
	for _, raw := range []*json.RawMessage{&in.ToolInput, &in.PermissionSuggestions} {
		if len(*raw) == 0 {
			continue
		}
		text, err := strictjson.Canonical(*raw)
		if err != nil {
			return nil, err
		}
		*raw = text
	}
	return strictjson.Plain(struct {
		Input
		snakeInput
	}{in, snakeInput{
		in.Event.pascal(), in.ToolName, in.CalledAs, in.ToolInput, in.ToolOutput, in.ToolUseID, in.SessionID,
		in.PermissionMode, in.TranscriptPath, in.AgentID, in.AgentType,
	}})
}

func toolName(c *tool.Call) string {
	if c.Spec.Name != "" {
		return c.Spec.Name
	}
	return c.Request.Tool
}

func callInput(c *tool.Call) Input { return inputOf(c, c.In.Args) }

// inputOf returns the input of a call with these arguments.
func inputOf(c *tool.Call, args json.RawMessage) Input {
	in := Input{
		ToolName: toolName(c), ToolInput: args, ToolUseID: c.Request.ToolUseID,
		SessionID: c.Request.Session, Cwd: c.In.Dir, PermissionMode: string(c.Session.Mode),
	}
	if in.Cwd == "" {
		in.Cwd = c.Session.Dir
	}
	in.Cwd = tool.DirAs(in.ToolName, in.ToolInput, in.Cwd, c.In.Home)
	return in
}

// shown returns the input as hooks see it: a tool that is another by its own name is that other one.
func (in Input) shown() Input {
	in.CalledAs = ""
	if as := tool.As(in.ToolName); as != "" {
		in.ToolName, in.CalledAs, in.ToolInput = as, in.ToolName, tool.ArgsAs(in.ToolName, in.ToolInput)
	}
	return in
}

// own returns what a hook put in place of the arguments that it saw, for the tool that was called.
func (in Input) own(updated json.RawMessage) (json.RawMessage, error) {
	if in.CalledAs == "" || len(updated) == 0 {
		return updated, nil
	}
	return tool.ArgsFrom(in.CalledAs, updated, in.ToolInput)
}

func resultOf(c *tool.Call) (output, failure string) {
	output = c.Result.FormattedText
	if output == "" {
		output = c.Result.FinalText
	}
	if c.Result.Status == tool.StatusSuccess {
		return output, ""
	}
	switch {
	case c.Result.Error != nil:
		failure = c.Result.Error.Msg
	case c.Result.RejectReason != "":
		failure = c.Result.RejectReason
	default:
		failure = string(c.Result.Status)
	}
	return output, failure
}

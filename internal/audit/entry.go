package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// The events that this package writes itself. The others are named by those who
// append them: "approval", "session", "reload", "operator", "start", "stop", …
const (
	eventBegin      = "begin"
	eventEnd        = "end"
	eventCheckpoint = "checkpoint"
)

// Bounds of what others put into a line; the line stays far below maxLine.
const (
	maxName   = 256  // bytes of a name or an id
	maxText   = 2000 // bytes of a text
	maxList   = 64   // elements
	maxLine   = 1 << 20
	cutMarker = "…"
)

// Entry is one line of the log.
type Entry struct {
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
	Prev  string    `json:"prev"` // hash of the line before, "" for the first
	Event string    `json:"event"`

	Account string `json:"account,omitempty"`
	Role    string `json:"role,omitempty"`
	Session string `json:"session,omitempty"`
	Agent   string `json:"agent,omitempty"` // name in its tree

	// Parents are the sessions above, the nearest first.
	Parents   []string `json:"parents,omitempty"`
	Call      string   `json:"call,omitempty"`
	Tool      string   `json:"tool,omitempty"`
	ToolUseID string   `json:"tool_use_id,omitempty"`
	Class     string   `json:"class,omitempty"`
	Mode      string   `json:"mode,omitempty"`
	Profile   string   `json:"profile,omitempty"`
	DryRun    bool     `json:"dry_run,omitempty"`

	Verdict  string   `json:"verdict,omitempty"`
	By       string   `json:"by,omitempty"`
	Rules    []string `json:"rules,omitempty"`
	Revision string   `json:"revision,omitempty"`

	Approval *Approval `json:"approval,omitempty"`

	Digest string `json:"digest,omitempty"` // what an approval binds
	Args   string `json:"args_sha256,omitempty"`
	Result string `json:"result_sha256,omitempty"`

	Status    string      `json:"status,omitempty"`
	ErrorCode string      `json:"error_code,omitempty"`
	Stage     string      `json:"stage,omitempty"`
	Layers    []string    `json:"layers,omitempty"`
	Missing   []string    `json:"missing,omitempty"`
	Denials   []string    `json:"denials,omitempty"`
	Exit      *int        `json:"exit,omitempty"` // of the program, where the tool says it
	Ended     string      `json:"ended,omitempty"`
	Usage     *tool.Usage `json:"usage,omitempty"`
	Changed   int         `json:"changed,omitempty"` // paths
	Changes   string      `json:"changes_sha256,omitempty"`
	Kept      bool        `json:"undo_kept,omitempty"`

	Network *egress.Ledger `json:"network,omitempty"` // what it connected to, or tried to

	Message   string            `json:"message,omitempty"`
	Detail    map[string]string `json:"detail,omitempty"`
	Signature string            `json:"signature,omitempty"` // of a checkpoint: over seq-1 and prev

	Hash string `json:"hash,omitempty"` // over the bytes of the line before it
}

// Approval is a person's answer without its texts.
type Approval struct {
	ID       string `json:"id"`
	Approved bool   `json:"approved"`
	By       string `json:"by,omitempty"`
	Code     string `json:"code,omitempty"`
	Remember string `json:"remember,omitempty"`
	Edited   bool   `json:"edited,omitempty"`
}

func noteEntry(e tool.Note) Entry {
	return Entry{
		Event: e.Name, Account: e.Account, Session: e.Session, Call: e.Call, Tool: e.Tool,
		Digest: e.Digest, Message: e.Message, Detail: e.Detail,
	}
}

func beginEntry(c *tool.Call) Entry {
	e := Entry{
		Event: eventBegin, Account: c.Request.Account, Role: string(c.Request.Role), Session: c.Request.Session,
		Call: c.ID, Tool: c.Request.Tool, ToolUseID: c.Request.ToolUseID, Class: string(c.Spec.Class),
		Mode: string(c.Session.Mode), Profile: string(c.Session.Profile), DryRun: c.Request.DryRun,
		Verdict: c.Decision.Verdict.String(), By: string(c.Decision.By), Revision: c.Decision.Revision,
		Digest: c.Digest, Args: digest(c.In.Args), Agent: c.Session.Agent,
	}
	for _, up := range c.Session.Above {
		e.Parents = append(e.Parents, up.ID)
	}
	for _, r := range c.Decision.Reasons {
		e.Rules = append(e.Rules, r.Rule)
	}
	if a := c.Approval; a != nil {
		e.Approval = &Approval{
			ID: a.ID, Approved: a.Approved, By: a.By, Code: a.Code, Remember: a.Remember, Edited: a.Args != nil,
		}
	}
	return e
}

func endEntry(c *tool.Call) Entry {
	e := beginEntry(c)
	e.Event = eventEnd
	e.Status = string(c.Result.Status)
	e.Result = digest([]byte(c.Result.FinalText))
	if x := c.Result.Error; x != nil {
		e.ErrorCode, e.Stage = x.Code, x.Stage
	}
	e.Layers, e.Missing = c.Report.Layers, c.Report.Missing
	for _, d := range c.Report.Denials {
		// Which layer stopped it, not what: the act holds paths and hosts.
		e.Denials = append(e.Denials, d.Layer)
	}
	if e.Changed = c.Changes.Total; e.Changed > 0 {
		list, err := json.Marshal(c.Changes.List)
		if err == nil { // strings and numbers have a JSON form
			e.Changes = digest(list)
		}
		e.Kept = c.Changes.Undo != nil && c.Changes.Undo.Kept
	}
	if n := c.Network; len(n.Connections) > 0 || n.Omitted > 0 {
		e.Network = &n
	}
	e.ended(c.Output.Data)
	e.Usage = c.Result.Usage
	if e.Usage == nil {
		e.Usage = &tool.Usage{WallMS: time.Since(c.Started).Milliseconds()}
	}
	return e
}

// ender is data of a tool that ran one program: its exit status, and "exited",
// "signaled", "timed_out" or the limit that ended it.
type ender interface {
	Ended() (code int, why string)
}

func (e *Entry) ended(data any) {
	if x, ok := data.(ender); ok {
		code, why := x.Ended()
		e.Exit, e.Ended = &code, cut(why, maxName)
	}
}

func digest(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// redact cleans every text that somebody else chose: the model, a client, an
// author of policies. The other fields hold words of this program; digests look
// like secrets and are none.
func (e *Entry) redact(r *Redactor) {
	name := func(s *string) { *s = cut(r.String(*s), maxName) }
	for _, s := range []*string{
		&e.Event, &e.Account, &e.Session, &e.Agent, &e.Tool, &e.ToolUseID, &e.ErrorCode, &e.Profile,
	} {
		name(s)
	}
	for _, s := range []*string{
		&e.Call, &e.Digest, &e.Role, &e.Class, &e.Mode, &e.By, &e.Revision, &e.Status,
		&e.Stage,
	} {
		*s = cut(*s, maxName)
	}
	for _, list := range []*[]string{&e.Parents, &e.Rules, &e.Layers, &e.Missing, &e.Denials} {
		clean := make([]string, min(len(*list), maxList))
		for i := range clean {
			clean[i] = (*list)[i]
			name(&clean[i])
		}
		*list = clean
	}
	if e.Approval != nil {
		a := *e.Approval
		for _, s := range []*string{&a.ID, &a.By, &a.Code, &a.Remember} {
			name(s)
		}
		e.Approval = &a
	}
	if e.Network != nil {
		n := *e.Network
		n.Connections = slices.Clone(n.Connections)
		for i := range n.Connections {
			c := &n.Connections[i]
			for _, s := range []*string{&c.Host, &c.Protocol, &c.Via, &c.Verdict, &c.Rule, &c.Reason, &c.Address} {
				name(s)
			}
		}
		e.Network = &n
	}
	e.Message = cut(r.String(e.Message), maxText)
	if e.Detail != nil {
		clean := map[string]string{}
		for k, v := range e.Detail {
			if len(clean) < maxList {
				clean[cut(r.String(k), maxName)] = cut(r.String(v), maxText)
			}
		}
		e.Detail = clean
	}
}

// cut shortens to about n bytes of valid text.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + cutMarker
}

// The hash stands at the end of the line, so that it covers exact bytes and
// nobody has to agree on how to write JSON.
const (
	hashKey    = `,"hash":"`
	hashSuffix = len(hashKey) + 2*sha256.Size + len("\"}\n")
)

func (e Entry) encode() (line []byte, hash string, err error) {
	e.Hash = ""
	body, err := json.Marshal(e)
	if err != nil {
		return nil, "", err
	}
	body = body[:len(body)-1]
	if len(body)+hashSuffix > maxLine {
		return nil, "", fmt.Errorf("an entry of %d bytes is too large", len(body))
	}
	sum := sha256.Sum256(body)
	hash = hex.EncodeToString(sum[:])
	return append(append(append(body, hashKey...), hash...), "\"}\n"...), hash, nil
}

// decode returns the opposite; line ends in a newline. An error means that these are not the bytes that encode
// wrote.
func decode(line []byte) (Entry, error) {
	at := len(line) - hashSuffix
	if at <= 0 || !bytes.HasPrefix(line[at:], []byte(hashKey)) || !bytes.HasSuffix(line, []byte("\"}\n")) {
		return Entry{}, errors.New("it is not a line of the log")
	}
	sum := sha256.Sum256(line[:at])
	hash := string(line[at+len(hashKey) : len(line)-len("\"}\n")])
	if hex.EncodeToString(sum[:]) != hash {
		return Entry{}, errors.New("it was altered: its hash does not fit")
	}
	var e Entry
	if err := json.Unmarshal(line, &e); err != nil {
		return Entry{}, fmt.Errorf("it is not a line of the log: %w", err)
	}
	return e, nil
}

package scopes

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Scope is the scope of a variable.
type Scope string

// The five scopes, the strongest first (S-02).
const (
	Page   Scope = "page"
	Floor  Scope = "floor"
	Branch Scope = "branch"
	Chat   Scope = "chat"
	Global Scope = "global"
)

// mainBranch is the branch that every session has.
const mainBranch = "main"

// Bounds of names and values.
const (
	maxKey    = 256 // characters
	maxBranch = 100
	maxReason = 1000
	maxValue  = 16 << 20 // bytes of JSON
)

// Ref identifies a branch by its session and its name.
type Ref struct {
	Session string `json:"session_id"`
	Branch  string `json:"branch_id"`
}

// target identifies one host of variables: a branch by its session and its name, any other by its scope_id.
type target struct {
	scope  Scope
	host   string
	branch string
}

// scopeID returns the scope_id of the host, as the API spells it.
func (t target) scopeID() string {
	if t.scope == Branch {
		return branchScopeID(t.host, t.branch)
	}
	return t.host
}

// ref returns the session and the name of a branch. It returns nil for other hosts.
func (t target) ref() *Ref {
	if t.scope != Branch {
		return nil
	}
	return &Ref{t.host, t.branch}
}

// globalTarget is the host of global variables, whatever the scope_id is (S-03).
var globalTarget = target{scope: Global, host: string(Global)}

// branchScopeID returns the canonical scope_id of a branch (S-04). It percent-encodes both parts, so that a colon in
// one of them is no separator.
func branchScopeID(session, branch string) string {
	return "branch:" + escape(session) + ":" + escape(branch)
}

// escape does what encodeURIComponent of JavaScript does, which clients of this API use.
func escape(s string) string {
	return strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").
		Replace(url.QueryEscape(s))
}

// parseBranchScopeID is the inverse of branchScopeID. ok is false if the text does not have this form.
func parseBranchScopeID(id string) (session, branch string, ok bool) {
	rest, ok := strings.CutPrefix(id, "branch:")
	parts := strings.Split(rest, ":")
	if !ok || len(parts) != 2 {
		return "", "", false
	}
	session, err := url.PathUnescape(parts[0])
	if err != nil || session == "" {
		return "", "", false
	}
	branch, err = url.PathUnescape(parts[1])
	return session, branch, err == nil && branch != ""
}

// address is a host as a request names it. A nil field is missing in the request.
type address struct {
	scope                    Scope
	scopeID, session, branch *string
}

// target checks the address of a host without the database (S-14 to S-18).
func (a address) target() (target, error) {
	switch a.scope {
	case Global, Chat, Branch, Floor, Page:
	case "":
		return target{}, badRequest("validation_error", "scope is missing")
	default:
		return target{}, badRequest("validation_error",
			fmt.Sprintf("scope is %q: want global, chat, branch, floor or page", clip(string(a.scope))))
	}
	if a.scope == Branch {
		return a.branchTarget()
	}
	if a.session != nil || a.branch != nil {
		return target{}, badRequest("invalid_variable_context", "session_id and branch_id go with scope branch alone")
	}
	if a.scopeID == nil || *a.scopeID == "" {
		return target{}, badRequest("validation_error", fmt.Sprintf("scope_id is missing: scope %s needs it", a.scope))
	}
	if a.scope == Global {
		return globalTarget, nil
	}
	return target{scope: a.scope, host: *a.scopeID}, nil
}

func (a address) branchTarget() (target, error) {
	if (a.session == nil) != (a.branch == nil) {
		return target{}, badRequest("invalid_variable_context", "session_id and branch_id go together")
	}
	if a.scopeID == nil && a.session == nil {
		return target{}, badRequest("invalid_variable_context",
			"scope branch needs session_id and branch_id, or scope_id")
	}
	var t target
	if a.scopeID != nil {
		session, branch, ok := parseBranchScopeID(*a.scopeID)
		if !ok {
			return target{}, badRequest("invalid_variable_context", fmt.Sprintf(
				"scope_id is %q: want branch:SESSION:BRANCH, both percent-encoded", clip(*a.scopeID)))
		}
		t = target{Branch, session, branch}
	}
	if a.session == nil {
		return t, nil
	}
	if *a.session == "" || *a.branch == "" {
		return target{}, badRequest("validation_error", "session_id and branch_id must not be empty")
	}
	pair := target{Branch, *a.session, *a.branch}
	if a.scopeID != nil && t != pair {
		return target{}, badRequest("invalid_variable_context",
			"scope_id is of another branch than session_id and branch_id")
	}
	return pair, nil
}

// checkKey returns what is wrong with the key of a variable (S-19).
func checkKey(key string) error {
	switch n := utf8.RuneCountInString(key); {
	case n == 0:
		return badRequest("validation_error", "key is missing")
	case n > maxKey:
		return badRequest("validation_error", fmt.Sprintf("key has %d characters, %d at most", n, maxKey))
	case strings.ContainsFunc(key, unicode.IsControl):
		return badRequest("validation_error", "key has a control character")
	}
	return nil
}

// checkBranch returns the name of a branch in the form in which it is stored.
func checkBranch(name string) (string, error) {
	name = strings.TrimSpace(name)
	if n := utf8.RuneCountInString(name); n < 1 || n > maxBranch {
		return "", badRequest("validation_error", fmt.Sprintf("branch_id has %d characters: want 1 to %d", n,
			maxBranch))
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return "", badRequest("validation_error", "branch_id has a control character")
	}
	return name, nil
}

// clip shortens a caller's text for a message.
func clip(s string) string {
	if r := []rune(s); len(r) > 100 {
		return string(r[:100]) + "…"
	}
	return s
}

func badRequest(code, msg string) error { return &tool.Error{Code: code, Msg: msg} }

func missing(code, what, id string) error {
	return &tool.Error{
		Code: code, Msg: fmt.Sprintf("there is no %s %q", what, clip(id)),
		Hint: "sandboxd scopes tree SESSION shows the places of a session and what they hold",
	}
}

func conflict(code, msg, hint string) error { return &tool.Error{Code: code, Msg: msg, Hint: hint} }

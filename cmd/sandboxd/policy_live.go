package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/policy"
)

// wantedCall is {"tool", "args"}, which the daemon is asked about.
type wantedCall struct {
	Session string          `json:"session_id"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
	Nearest bool            `json:"nearest"`
}

// liveExplain lets the running daemon say why: about a call that it judged, by its
// id, or about one that is described.
type liveExplain struct {
	session         string
	nearest, asJSON bool
}

// isCallID tells the id of a call from a directory with policies.
func isCallID(arg string) bool { return strings.HasPrefix(arg, "call_") }

// past shows what was judged then, and how the daemon would judge it now.
func (l liveExplain) past(cmd *cobra.Command, id string) error {
	api := client.New(operatorSocket())
	var rec policy.Record
	if err := api.Do(cmd.Context(), http.MethodGet, "/decisions/"+url.PathEscape(id), nil, &rec); err != nil {
		return err
	}
	call, err := wantedAgain(rec)
	if err == nil {
		call.Nearest = l.nearest
		var now policy.Explanation
		if err = api.Do(cmd.Context(), http.MethodPost, "/policies/explain", call, &now); err == nil {
			rec.Nearest = now.Nearest
			rec.Note = strings.TrimPrefix(rec.Note+"; "+changed(rec.Explanation, now), "; ")
		}
	}
	if err != nil {
		rec.Note = strings.TrimPrefix(rec.Note+"; it cannot be judged again: "+err.Error(), "; ")
	}
	if l.asJSON {
		return printJSON(cmd.OutOrStdout(), rec)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(
		out, "%s of session %s at %s, in mode %s\n", rec.Tool, rec.Session,
		rec.At.Local().Format("2006-01-02 15:04:05"), rec.Mode,
	)
	if line := recordedLine(rec.Input); line != "" {
		fmt.Fprintf(out, "  %q\n", line)
	}
	printExplanation(out, rec.Explanation, recordedLine(rec.Input))
	return nil
}

func changed(then, now policy.Explanation) string {
	if then.Decision.Revision == now.Decision.Revision && then.Decision.Verdict == now.Decision.Verdict {
		return ""
	}
	by := "before any policy" // the call is no longer one that policies are asked about
	if now.Decision.Revision != "" {
		by = "by revision " + now.Decision.Revision
	}
	return fmt.Sprintf("judged now it is %s, %s", now.Decision.Verdict, by)
}

// wantedAgain is the recorded call, for judging it again.
func wantedAgain(rec policy.Record) (wantedCall, error) {
	var in struct {
		Params json.RawMessage `json:"params"`
	}
	if rec.Input == nil {
		return wantedCall{}, errors.New("its arguments are not kept")
	}
	if err := json.Unmarshal(rec.Input, &in); err != nil {
		return wantedCall{}, err
	}
	if bytes.Contains(in.Params, []byte("[masked]")) || bytes.Contains(in.Params, []byte("[REDACTED")) {
		return wantedCall{}, errors.New("a part of its arguments is masked")
	}
	return wantedCall{Session: rec.Session, Tool: rec.Tool, Args: in.Params}, nil
}

func recordedLine(input json.RawMessage) string {
	var in struct {
		Params struct {
			Command string `json:"command"`
		} `json:"params"`
	}
	_ = json.Unmarshal(input, &in) // without a command there is nothing to show
	return in.Params.Command
}

// described asks about a command line, or {"tool", "args"} as text or from stdin.
func (l liveExplain) described(cmd *cobra.Command, line, text string) error {
	call, err := describedCall(line, text, cmd.InOrStdin())
	if err != nil {
		return err
	}
	if call.Session, err = l.in(cmd.Context()); err != nil {
		return err
	}
	call.Nearest = l.nearest
	var x policy.Explanation
	err = client.New(operatorSocket()).Do(cmd.Context(), http.MethodPost, "/policies/explain", call, &x)
	if err != nil {
		return err
	}
	if l.asJSON {
		return printJSON(cmd.OutOrStdout(), x)
	}
	printExplanation(cmd.OutOrStdout(), x, recordedLine(x.Input))
	return nil
}

// in is the session that is named, or the one of this directory.
func (l liveExplain) in(ctx context.Context) (string, error) {
	return sessionID(ctx, client.New(agentSocket()), l.session)
}

func describedCall(line, text string, stdin io.Reader) (call wantedCall, err error) {
	if line != "" {
		call.Tool = "Bash"
		call.Args, err = json.Marshal(map[string]string{"command": line})
		return call, err
	}
	from := stdin
	if text != "" {
		from = strings.NewReader(text)
	}
	call.Tool = "Bash"
	dec := json.NewDecoder(from)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&call); err != nil {
		return call, fmt.Errorf("read {\"tool\", \"args\"}: %w", err)
	}
	if call.Session != "" {
		return call, errors.New("name the session with --session")
	}
	return call, nil
}

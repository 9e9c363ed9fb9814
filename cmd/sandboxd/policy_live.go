package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/tool"
)

// liveAnswer is what POST /decide says.
type liveAnswer struct {
	Decision tool.Decision   `json:"decision"`
	Facts    json.RawMessage `json:"facts"`
	Args     json.RawMessage `json:"updated_args,omitempty"`
}

// explainLive lets the daemon judge a command line, or {"tool", "args"} from
// stdin, by the whole of its judge.
func explainLive(cmd *cobra.Command, session, line string, asJSON bool) error {
	call := struct {
		Session string          `json:"session_id"`
		Tool    string          `json:"tool"`
		Args    json.RawMessage `json:"args"`
	}{Tool: "Bash"}
	if line != "" {
		args, err := json.Marshal(map[string]string{"command": line})
		if err != nil {
			return err
		}
		call.Args = args
	} else {
		dec := json.NewDecoder(cmd.InOrStdin())
		dec.DisallowUnknownFields()
		if err := dec.Decode(&call); err != nil {
			return fmt.Errorf("read {\"tool\", \"args\"} from stdin: %w", err)
		}
		if call.Session != "" {
			return errors.New("name the session with --session")
		}
	}
	api := client.New(agentSocketPath())
	id, err := sessionID(cmd.Context(), api, session)
	if err != nil {
		return err
	}
	call.Session = id
	var answer liveAnswer
	if err := api.Do(cmd.Context(), "POST", "/decide", call, &answer); err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), answer)
	}
	answer.Decision.Args = answer.Args
	policy.PrintDecision(cmd.OutOrStdout(), answer.Decision, line)
	return nil
}

package api

import (
	"encoding/json"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/tool"
	"github.com/sandboxd/sandboxd/vars"
)

// spec is what the OpenAPI document says of a route beside its path and role.
type spec struct {
	summary string
	query   []string
	in, out any  // of the types on the wire; nil has no body, or any data
	created bool // may answer 201
	paged   bool // data is a list with meta
	events  bool // answers server-sent events
}

var pageQuery = []string{"limit", "offset"}

// specs has every route; a test holds it against the table of routes.
var specs = map[string]spec{
	"GET /healthz":                      {summary: "Whether the daemon answers", out: health{}},
	"GET /status":                       {summary: "What the daemon says of itself", out: daemonStatus{}},
	"POST /sessions":                    {summary: "Make a session", in: newSession{}, out: session{}, created: true},
	"GET /sessions":                     {summary: "List sessions", query: append([]string{"sort_by", "sort_order"}, pageQuery...), out: []session{}, paged: true},
	"GET /sessions/{id}":                {summary: "One session", out: session{}},
	"PATCH /sessions/{id}":              {summary: "Change a session; mode, profile and sandbox are the operator's", in: sessionChange{}, out: session{}},
	"DELETE /sessions/{id}":             {summary: "Delete a session with its variables", out: deleted{}},
	"GET /sessions/{id}/tools":          {summary: "Definitions of the tools that are on", query: []string{"format"}, out: []map[string]any{}},
	"GET /sessions/{id}/prompt":         {summary: "Text for the system prompt", out: promptText{}},
	"POST /sessions/{id}/hook-events":   {summary: "Run the hooks of an event that only a client sees", in: hookEvent{}, out: hookAnswer{}},
	"PUT /sessions/{id}/groups/{name}":  {summary: "Switch a group of tools", in: enableRequest{}, out: session{}},
	"PUT /sessions/{id}/tools/{name}":   {summary: "Switch a tool", in: enableRequest{}, out: session{}},
	"POST /sessions/{id}/calls":         {summary: "Run one call, or several; several are answered by a list", in: callRequest{}, out: oneOf{tool.Result{}, []tool.Result{}}},
	"GET /calls":                        {summary: "Calls of this account that run", out: []pipeline.State{}},
	"GET /calls/{id}":                   {summary: "A call that runs, or ended lately", out: pipeline.State{}},
	"POST /calls/{id}/cancel":           {summary: "Cancel a call", out: cancelled{}},
	"POST /calls/{id}/run":              {summary: "Run a call that /decide held, in a cage of the client's: a run event with a call to start, then its result", out: tool.Lent{}, events: true},
	"POST /calls/{id}/ended":            {summary: "How a call that the client runs has ended", in: tool.LentEnd{}, out: recorded{}},
	"POST /decide":                      {summary: "Judge a call that somebody else runs, and wait for a person if wanted; nothing runs", in: decideRequest{}, out: decided{}},
	"POST /check":                       {summary: "What the guard alone sees in a command or a path", in: checkRequest{}},
	"GET /sessions/{id}/vars":           {summary: "List variables, without their values", query: append([]string{"type", "tag", "search"}, pageQuery...), out: []vars.Var{}, paged: true},
	"POST /sessions/{id}/vars/remove":   {summary: "Remove variables", in: removeRequest{}, out: removedVars{}},
	"GET /sessions/{id}/vars/{name}":    {summary: "One variable", out: vars.Var{}},
	"PUT /sessions/{id}/vars/{name}":    {summary: "Write a variable", in: varBody{}, out: vars.Var{}, created: true},
	"PATCH /sessions/{id}/vars/{name}":  {summary: "Change a variable", in: varBody{}, out: vars.Var{}},
	"DELETE /sessions/{id}/vars/{name}": {summary: "Delete a variable", out: deleted{}},
	"GET /sessions/{id}/origins":        {summary: "Who wrote what the model of a session was shown", out: shownOrigins{}},
	"POST /sessions/{id}/origins/reset": {summary: "Hold what a session has read to be harmless", out: shownOrigins{}},
	"POST /records":                     {summary: "Record a command that ran without the daemon", in: recordRequest{}, out: recorded{}},
	"GET /events":                       {summary: "What happens, as server-sent events", query: []string{"session_id", "type"}, out: Event{}, events: true},
	"GET /approvals":                    {summary: "List questions", query: append([]string{"status", "session_id"}, pageQuery...), out: []approvals.Item{}, paged: true},
	"GET /approvals/stream":             {summary: "Questions and answers as they come, those that wait first", query: []string{"session_id"}, out: Event{}, events: true},
	"GET /approvals/{id}":               {summary: "One question", out: approvals.Item{}},
	"POST /approvals/{id}":              {summary: "Answer a question", in: answerRequest{}, out: approvals.Item{}},
	"GET /grants":                       {summary: "What people allowed for longer", out: []approvals.Grant{}},
	"DELETE /grants/{id}":               {summary: "Revoke a grant", out: deleted{}},
	"GET /policies":                     {summary: "Which policies judge", out: policy.Status{}},
	"POST /policies/reload":             {summary: "Load the policies again", out: policy.Status{}},
	"POST /policies/explain":            {summary: "Why a call would be judged so, and what would change it", in: explainRequest{}, out: policy.Explanation{}},
	"GET /decisions/{id}":               {summary: "How a call was judged", out: policy.Record{}},
	"GET /hooks":                        {summary: "The configured hooks", out: []hooks.Info{}},
	"POST /hooks/test":                  {summary: "Run the hooks of an event that did not happen; nothing comes of it", in: hookEvent{}, out: trialAnswer{}},
	"GET /audit":                        {summary: "The newest lines of the record", query: []string{"limit"}, out: []json.RawMessage{}},
	"POST /reload":                      {summary: "Read the configuration again", out: ConfigStatus{}},
	"POST /stop-all":                    {summary: "End every call and the daemon, now", out: stopping{}},
}

// oneOf is data of one of several types.
type oneOf []any

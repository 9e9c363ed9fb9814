package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/sandboxd/sandboxd/internal/jsonout"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// statuses says which HTTP status a stable code has, where it is not 400.
var statuses = map[string]int{
	"reload_loosens":       http.StatusConflict,
	"session_not_found":    http.StatusNotFound,
	"call_not_held":        http.StatusNotFound,
	"not_found":            http.StatusNotFound,
	"job_not_found":        http.StatusNotFound,
	"cron_not_found":       http.StatusNotFound,
	"mcp_server_not_found": http.StatusNotFound,
	"skill_not_found":      http.StatusNotFound,
	"callable_not_found":   http.StatusNotFound,
	"job_ended":            http.StatusConflict,
	"port_taken":           http.StatusConflict,
	"port_not_forwarded":   http.StatusNotFound,
	"too_many_jobs":        http.StatusTooManyRequests,
	"variable_not_found":   http.StatusNotFound,
	"tool_not_found":       http.StatusNotFound,
	"group_not_found":      http.StatusNotFound,
	"session_exists":       http.StatusConflict,
	"agent_exists":         http.StatusConflict,
	"hook_blocked":         http.StatusForbidden,

	"task_not_found":            http.StatusNotFound,
	"invalid_status_transition": http.StatusConflict,
	"task_changed":              http.StatusConflict,
	"too_many_tasks":            http.StatusTooManyRequests,
	"team_not_found":            http.StatusNotFound,
	"team_disbanded":            http.StatusConflict,
	"too_many_teams":            http.StatusTooManyRequests,
	"member_not_found":          http.StatusNotFound,
	"member_exists":             http.StatusConflict,
	"not_in_team":               http.StatusForbidden,
	"not_the_leader":            http.StatusForbidden,
	"recipient_not_found":       http.StatusNotFound,
	"mailbox_full":              http.StatusConflict,

	"transcript_corrupt": http.StatusUnprocessableEntity,
	"too_many_sessions":  http.StatusTooManyRequests,
	"already_decided":    http.StatusConflict,
	"expired":            http.StatusConflict,
	"variable_protected": http.StatusConflict,
	"record_failed":      http.StatusServiceUnavailable,
	"project_not_found":  http.StatusNotFound,
	"project_gone":       http.StatusForbidden,
	"project_refused":    http.StatusForbidden,

	"variable_host_not_found":       http.StatusNotFound,
	"variable_target_locked":        http.StatusConflict,
	"branch_local_snapshot_missing": http.StatusConflict,
	"branch_exists":                 http.StatusConflict,
	"branch_head_conflict":          http.StatusConflict,
	"protected_branch":              http.StatusConflict,
	"ambiguous_branch":              http.StatusConflict,
	"active_run_in_progress":        http.StatusConflict,
	"invalid_state":                 http.StatusConflict,
	"constraint_error":              http.StatusConflict,
	"floor_parent_session_mismatch": http.StatusConflict,
	"page_conflict":                 http.StatusConflict,
	"page_activation_not_allowed":   http.StatusConflict,
	"content_target_locked":         http.StatusConflict,

	"cwd_outside_workspace": http.StatusForbidden,
	"too_many_requests":     http.StatusTooManyRequests,
	"rate_limited":          http.StatusTooManyRequests,
	"account_busy":          http.StatusTooManyRequests,
	"agents_busy":           http.StatusServiceUnavailable,
	"too_large":             http.StatusRequestEntityTooLarge,
	"account_disk":          http.StatusInsufficientStorage,
	"disk_reserve":          http.StatusServiceUnavailable,
	"store_unavailable":     http.StatusServiceUnavailable,
	"store_restored":        http.StatusServiceUnavailable,
	"session_elsewhere":     http.StatusConflict,
	"transcript_changed":    http.StatusConflict,
}

// write answers what a handler returned.
func (s *Server) write(w http.ResponseWriter, r *http.Request, out any) {
	switch out := out.(type) {
	case route.Stream:
		route.ServeStream(w, r, out)
	case route.Raw:
		route.ServeRaw(w, r, out)
	case route.List:
		write(w, http.StatusOK, out)
	case route.Created:
		write(w, http.StatusCreated, data{out.Data})
	default:
		write(w, http.StatusOK, data{out})
	}
}

// data is the body of a success, failure the body of an error.
type (
	data struct {
		Data any `json:"data"`
	}
	failure struct {
		Error *tool.Error `json:"error"`
	}
)

// passing are the refusals that end by themselves: the same request may succeed later.
var passing = map[string]bool{
	"too_many_requests": true, "rate_limited": true, "account_busy": true, "agents_busy": true,
	"disk_reserve": true, "store_unavailable": true,
}

func writeError(w http.ResponseWriter, err error) {
	var he route.Error
	te := tool.ErrorOf(err)
	switch {
	case errors.As(err, &he):
		write(w, he.Status, failure{he.Said})
	case te != nil:
		if passing[te.Code] {
			w.Header().Set("Retry-After", "1")
		}
		write(w, statusOf(te.Code), failure{te})
	default:
		write(w, http.StatusInternalServerError, failure{&tool.Error{Code: "internal", Msg: err.Error()}})
	}
}

func statusOf(code string) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusBadRequest
}

// write writes an answer in pieces. One that fails before its first piece becomes a
// failure; after it, the connection ends, so that no part is taken for the whole.
func write(w http.ResponseWriter, status int, v any) {
	out := &reply{w: w, status: status}
	err := encode(out, v, func() { _ = http.NewResponseController(w).Flush() }) // the next write says what is wrong
	if err == nil {
		_, err = out.Write([]byte{'\n'})
	}
	switch {
	case err == nil:
	case out.begun:
		panic(http.ErrAbortHandler)
	default:
		writeError(w, fmt.Errorf("the answer cannot be encoded: %w", err))
	}
}

func encode(w io.Writer, v any, flush func()) error {
	switch v := v.(type) {
	case data:
		if items, ok := v.Data.(route.Items); ok {
			return encodeItems(w, items, "}", flush)
		}
	case route.List:
		if items, ok := v.Data.(route.Items); ok {
			meta, err := json.Marshal(v.Meta)
			if err != nil {
				return err
			}
			return encodeItems(w, items, `,"meta":`+string(meta)+"}", func() {})
		}
	}
	return jsonout.Write(w, v)
}

// encodeItems writes each element as it comes. A list comes from the database at once; other
// elements may take a while, and flush sends each.
func encodeItems(w io.Writer, items route.Items, end string, flush func()) error {
	sep := `{"data":[`
	for item, err := range items {
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, sep); err != nil {
			return err
		}
		if err := jsonout.Write(w, item); err != nil {
			return err
		}
		sep = ","
		flush()
	}
	if sep != "," {
		end = sep + "]" + end
	} else {
		end = "]" + end
	}
	_, err := io.WriteString(w, end)
	return err
}

// reply sends the head with the first piece.
type reply struct {
	w      http.ResponseWriter
	status int
	begun  bool
}

func (a *reply) Write(p []byte) (int, error) {
	if !a.begun {
		a.begun = true
		a.w.Header().Set("Content-Type", "application/json")
		a.w.WriteHeader(a.status)
	}
	return a.w.Write(p)
}

package daemon

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
)

// What a hook wants people to see is an event of the operator socket, in the words of the hook (docs/hooks.md).
func TestH25_ANotificationIsAnEvent(t *testing.T) {
	const says = `{"notification":{"title":"Look","body":"at this","level":"warning"}}`
	u := newUndoing(t, "hooks: {preToolUse: [{command: \"echo '"+strings.ReplaceAll(says, `"`, `\"`)+"'\"}]}\n")
	stream, err := u.operator.Events(t.Context(), client.EventFilter{Types: []string{"notification"}})
	if err != nil {
		t.Fatal(err)
	}
	u.call("s1", "Config", map[string]any{"action": "list"})
	u.daemon.events.Publish(events.Event{Type: events.Notification}) // the test ends also without one of the hook
	for e, err := range stream {
		if err != nil || e.Title != "Look" || e.Message != "at this" || e.Status != "warning" || e.Session != "s1" {
			t.Errorf("got %+v, %v", e, err)
		}
		return
	}
}

// A session that nobody uses is not deleted while a job of it runs, and one that cannot be deleted keeps no other
// (docs/configuration.md, sessions.keepDays).
func TestASessionWhoseJobRunsIsNotIdle(t *testing.T) {
	storetest.FileOnly(t)
	u := newUndoing(t, "sessions: {keepDays: 30}\n")
	for _, id := range []string{"unused", "stuck", "last"} {
		u.session(id)
	}
	job := u.call("s1", "Bash", map[string]any{"command": "sleep 1000", "run_in_background": true})
	if job.Status != client.StatusSuccess {
		t.Fatalf("%+v", job)
	}
	if err := u.daemon.sessions.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := u.daemon.db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE sessions SET updated = 1, used = 1;
			CREATE TRIGGER stays BEFORE UPDATE ON sessions WHEN OLD.id = 'stuck'
				BEGIN SELECT RAISE(ABORT, 'it stays'); END;
			CREATE TRIGGER remains BEFORE DELETE ON sessions WHEN OLD.id = 'stuck'
				BEGIN SELECT RAISE(ABORT, 'it stays'); END`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = u.daemon.deleteIdleNow(t.Context())
	if err == nil || !strings.Contains(err.Error(), `session "stuck"`) || strings.Count(err.Error(), "session ") != 1 {
		t.Errorf("got %v", err)
	}
	for id, stays := range map[string]bool{"s1": true, "unused": false, "stuck": true, "last": false} {
		err := u.agent.Do(t.Context(), "GET", "/sessions/"+id, nil, nil)
		if (err == nil) != stays || err != nil && code(err) != "session_not_found" {
			t.Errorf("%s: %v", id, err)
		}
	}
}

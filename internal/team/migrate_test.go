package team

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
)

// TestN30_MessagesOfAnEarlierVersionStay: with their order and authors, and they count for what the mailbox holds.
func TestN30_MessagesOfAnEarlierVersionStay(t *testing.T) {
	text, err := migrations.ReadFile("migrations/0001_team.sql")
	if err != nil {
		t.Fatal(err)
	}
	first := fstest.MapFS{"0001_team.sql": {Data: text}}
	path := filepath.Join(t.TempDir(), "s.db")
	db, err := storetest.At(t.Context(), t, path, store.Schema{Name: "team", Files: first, Postgres: first})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Write(t.Context(), func(tx *sql.Tx) error {
		for _, box := range []string{"a", "self"} {
			if _, err := tx.Exec(`INSERT INTO team_mailboxes (space, agent, last, messages, bytes)
				VALUES ('root', $1, 7, 2, 300)`, box); err != nil {
				return err
			}
		}
		for n, content := range map[int]string{6: `six \"quoted\" \u00e9`, 7: `seven`} {
			data := fmt.Sprintf(`{"from":"self","to":"a","content":"%s","timestamp":"2026-11-23T02:03:04.56%dZ","type":"text"}`,
				content, n)
			if _, err := tx.Exec(`INSERT INTO team_messages (space, agent, number, authors, data)
				VALUES ('root', 'a', $1, $2, $3)`, n, n-5, data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	done(s.CreateTeam(t.Context(), lead, "n", "", []string{"a"}))
	done(s.Send(t.Context(), lead, Outgoing{To: "a", Message: "new"}, 4))
	var messages int
	if err := s.read(t.Context(), func(v view) error {
		return v.QueryRow(`SELECT max(messages) FROM team_mail WHERE space = 'root' AND agent = 'a'`).Scan(&messages)
	}); err != nil || messages != 3 {
		t.Errorf("the mailbox holds %d messages, %v", messages, err)
	}
	all, by, err := s.Take(t.Context(), at("a"))
	if err != nil || len(all) != 3 || by != 7 || all[0].Content != `six "quoted" é` || all[1].Content != "seven" ||
		all[2].Content != "new" || all[0].From != "self" || all[0].To != "a" || all[0].Type != Text ||
		!all[1].Timestamp.Equal(time.Date(2026, 11, 23, 2, 3, 4, 567e6, time.UTC)) {
		t.Errorf("got %+v of %v, %v", all, by, err)
	}
}

package sessions_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transcript"
)

// kept is a store with transcripts in a directory.
func kept(t *testing.T) (s *sessions.Store, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "sessions")
	d, err := transcript.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return open(t, ":memory:", sessions.Options{Transcripts: d}), dir
}

func messages() []json.RawMessage {
	return []json.RawMessage{json.RawMessage(`{"role":"user","content":"x"}`)}
}

// TestD05_ASaveReplacesAFileAndNothingElse: what somebody else put in the place of a transcript stays.
func TestD05_ASaveReplacesAFileAndNothingElse(t *testing.T) {
	for _, tt := range []struct {
		name string
		put  func(path, other string) error
		code string // of the save; "" is none
	}{
		{"nothing", func(string, string) error { return nil }, ""},
		{"a damaged file", func(path, _ string) error { return os.WriteFile(path, []byte("{"), 0o600) }, ""},
		{"a link to a file", func(path, other string) error { return os.Symlink(other, path) }, "transcript_corrupt"},
		{"a link to nothing", func(path, other string) error { return os.Symlink(other+"2", path) }, "transcript_corrupt"},
		{"a pipe", func(path, _ string) error { return syscall.Mkfifo(path, 0o600) }, "transcript_corrupt"},
		{"a directory", func(path, _ string) error { return os.Mkdir(path, 0o700) }, "transcript_corrupt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, dir := kept(t)
			sess := create(t, s, tool.Session{Account: "a", Dir: "/"})
			path := filepath.Join(dir, sess.ID, "transcript.json")
			other := filepath.Join(t.TempDir(), "other")
			for _, err := range []error{
				os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(other, []byte("theirs"), 0o600), tt.put(path, other),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			before, _ := os.Lstat(path)
			_, err := s.Save(t.Context(), "a", sess.ID, sessions.Save{Messages: messages()})
			if tt.code != "" {
				wantCode(t, err, tt.code)
				if now, err := os.Lstat(path); err != nil || !os.SameFile(before, now) {
					t.Errorf("what was there is replaced: %v, %v", now, err)
				}
			} else if err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(other); err != nil || string(text) != "theirs" {
				t.Errorf("the other file has %q, %v", text, err)
			}
		})
	}
}

// TestWhatADeletedSessionLeftGoes, and nothing of others does: neither of sessions that there are, nor of a directory
// that the database does not know.
func TestWhatADeletedSessionLeftGoes(t *testing.T) {
	s, dir := kept(t)
	gone := create(t, s, tool.Session{Account: "a", Dir: "/"})
	stays := create(t, s, tool.Session{Account: "a", Dir: "/"})
	if _, err := s.Save(t.Context(), "a", stays.ID, sessions.Save{Messages: messages()}); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "a", gone.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{gone.ID, "unknown"} { // as a daemon that is killed in the middle of a deletion leaves it
		if err := os.MkdirAll(filepath.Join(dir, id), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, id := range []string{gone.ID, stays.ID, "unknown"} {
		if _, err := os.Lstat(filepath.Join(dir, id)); err == nil {
			left = append(left, id)
		}
	}
	if want := []string{stays.ID, "unknown"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}

// A store that keeps no messages has none to remove.
func TestSweepWithoutTranscripts(t *testing.T) {
	if err := open(t, ":memory:", sessions.Options{}).Sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

// A save keeps what it does not say, a cut without its message changes nothing, and a fork of nothing has no prompt.
func TestWhatASaveAndACutLeave(t *testing.T) {
	s, _ := kept(t)
	sess := create(t, s, tool.Session{Account: "a", Dir: "/"})
	text := func(s string) *string { return &s }
	two := []json.RawMessage{
		json.RawMessage(`{"role":"user","content":"first","uuid":"1"}`),
		json.RawMessage(`{"role":"user","content":"second","uuid":"2"}`),
	}
	save := func(in sessions.Save) transcript.About {
		t.Helper()
		if _, err := s.Save(t.Context(), "a", sess.ID, in); err != nil {
			t.Fatal(err)
		}
		meta, _, err := s.Transcript(sess.ID)
		if err != nil {
			t.Fatal(err)
		}
		return meta.About
	}
	about := save(sessions.Save{Messages: two, Model: text("m"), Summary: text("s"), GitBranch: text("b")})
	if about.FirstPrompt != "first" || about.Model != "m" || about.Summary != "s" || about.GitBranch != "b" {
		t.Errorf("got %+v", about)
	}
	about = save(sessions.Save{Messages: two[1:], Append: true, Model: text("n")})
	if about.FirstPrompt != "first" || about.Model != "n" || about.Summary != "s" {
		t.Errorf("after more messages: %+v", about)
	}
	if about = save(sessions.Save{Messages: two, FirstPrompt: text("said")}); about.FirstPrompt != "said" {
		t.Errorf("a prompt that is said: %+v", about)
	}
	before, err := s.Session(t.Context(), "a", sess.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !before.Updated.After(sess.Updated) {
		t.Errorf("saved messages: changed at %v, made at %v", before.Updated, sess.Updated)
	}
	for _, message := range []string{"none", "2"} { // there is none behind the last
		now, err := s.Cut(t.Context(), "a", sess.ID, message)
		if err != nil || !now.Updated.Equal(before.Updated) {
			t.Errorf("a cut behind %s: changed at %v, before at %v, %v", message, now.Updated, before.Updated, err)
		}
	}
	if _, err := s.Cut(t.Context(), "a", sess.ID, "1"); err != nil {
		t.Fatal(err)
	}
	for most, prompt := range []string{"", "said"} {
		fork, err := s.Fork(t.Context(), sess, tool.Session{Account: "a", Dir: "/"}, sessions.Until{Messages: &most})
		if err != nil {
			t.Fatal(err)
		}
		if meta, _, err := s.Transcript(fork.ID); err != nil || meta.FirstPrompt != prompt {
			t.Errorf("a fork of %d messages has the prompt %q, %v", most, meta.FirstPrompt, err)
		}
	}
	empty := create(t, s, tool.Session{Account: "a", Dir: "/"})
	if _, err := s.Cut(t.Context(), "a", empty.ID, "1"); err != nil {
		t.Errorf("a cut of a session without messages: %v", err)
	}
}

// A transcript says whose it is, and hears when that changes.
func TestATranscriptHasTheFactsOfItsSession(t *testing.T) {
	s, _ := kept(t)
	sess := create(t, s, tool.Session{Account: "a", Dir: "/repo", Title: "first", Tag: "cli"})
	tag := "ide"
	check := func(title, tag string) {
		t.Helper()
		now, err := s.Session(t.Context(), "a", sess.ID)
		if err != nil || now.Title != title || now.Tag != tag {
			t.Errorf("the session is %+v, %v", now, err)
		}
		meta, bytes, err := s.Transcript(sess.ID)
		want := transcript.Metadata{
			ID: sess.ID, Dir: "/repo", CreatedAt: sess.Created, UpdatedAt: meta.UpdatedAt, Title: title, Tag: tag,
			Messages: 1, About: transcript.About{FirstPrompt: "x"},
		}
		if err != nil || bytes == 0 || meta != want || meta.UpdatedAt.Before(sess.Created) {
			t.Errorf("the transcript is of %+v, %v, want %+v", meta, err, want)
		}
	}
	if _, err := s.Save(t.Context(), "a", sess.ID, sessions.Save{Messages: messages(), Tag: &tag}); err != nil {
		t.Fatal(err)
	}
	check("first", "ide")
	for _, change := range []func(*tool.Session){
		func(x *tool.Session) { x.Title = "second" }, func(x *tool.Session) { x.Tag = "web" },
	} {
		_, err := s.Patch(t.Context(), "a", sess.ID, func(x *tool.Session) error { change(x); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	check("second", "web")
}

// A daemon counts what each session takes, with its transcript, for the budget of its account.
func TestWhatASessionTakesIsCounted(t *testing.T) {
	s, _ := kept(t)
	with := create(t, s, tool.Session{Account: "a", Dir: "/"})
	without := create(t, s, tool.Session{Account: "b", Dir: "/"})
	if _, err := s.Save(t.Context(), "a", with.ID, sessions.Save{Messages: messages()}); err != nil {
		t.Fatal(err)
	}
	_, said, err := s.Transcript(with.ID)
	if err != nil {
		t.Fatal(err)
	}
	bytes := map[string]int64{}
	if err := s.Kept(t.Context(), func(id, account string, n int64) { bytes[account+" "+id] = n }); err != nil {
		t.Fatal(err)
	}
	if len(bytes) != 2 || bytes["b "+without.ID] <= 0 || bytes["a "+with.ID] < said+bytes["b "+without.ID] {
		t.Errorf("got %v, with %d bytes of a transcript", bytes, said)
	}
}

// A session of which nothing was saved has no messages, can be named, and gets no file by that.
func TestASessionWithoutATranscript(t *testing.T) {
	s, dir := kept(t)
	sess := create(t, s, tool.Session{Account: "a", Dir: "/"})
	got, err := s.Patch(t.Context(), "a", sess.ID, func(x *tool.Session) error { x.Title = "new"; return nil })
	if err != nil || got.Title != "new" {
		t.Errorf("got %+v, %v", got, err)
	}
	m, err := s.Messages(t.Context(), "a", sess.ID, -1, 10)
	if err != nil || m.Total != 0 || m.Count != 0 {
		t.Errorf("got %+v, %v", m, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, sess.ID)); err == nil {
		t.Error("there is a transcript")
	}
}

// Messages of a session are of its account, and the last ones where no offset is named.
func TestMessagesAreReadFromTheEndOrFromAnOffset(t *testing.T) {
	s, _ := kept(t)
	sess := create(t, s, tool.Session{Account: "a", Dir: "/"})
	all := slices.Concat(messages(), messages(), messages())
	if _, err := s.Save(t.Context(), "a", sess.ID, sessions.Save{Messages: all}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Messages(t.Context(), "b", sess.ID, 0, 3)
	wantCode(t, err, "session_not_found")
	_, err = s.Save(t.Context(), "b", sess.ID, sessions.Save{Messages: all})
	wantCode(t, err, "session_not_found")
	_, err = s.Cut(t.Context(), "b", sess.ID, "1")
	wantCode(t, err, "session_not_found")
	for _, offset := range []int{-1, 1} {
		m, err := s.Messages(t.Context(), "a", sess.ID, offset, 2)
		if err != nil {
			t.Fatal(err)
		}
		if m.Total != 3 || m.From != 1 || m.Count != 2 {
			t.Errorf("from %d: %d messages from %d on", offset, m.Total, m.From)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

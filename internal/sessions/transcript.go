package sessions

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transcript"
)

// Save is what a client sends to be stored: messages, and facts about the conversation.
type Save struct {
	Messages []json.RawMessage
	Append   bool // behind those that are there, not in place of them
	// Each of these replaces the stored value; nil leaves it.
	Model, Summary, Tag, FirstPrompt, GitBranch *string
}

// Transcript returns the metadata and the size of the transcript of a session without reading its messages. The error
// is transcript_corrupt if the file is damaged.
func (s *Store) Transcript(id string) (meta transcript.Metadata, bytes int64, err error) {
	f, err := s.read(id)
	if err != nil || f == nil {
		return meta, 0, err
	}
	defer f.Close()
	return f.Meta, f.Size, nil
}

// read opens a transcript; nil if there is none.
func (s *Store) read(id string) (*transcript.File, error) {
	if s.o.Transcripts == nil {
		return nil, nil
	}
	f, err := s.o.Transcripts.Read(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// Messages is a part of what was said. It is open: whoever has it closes it.
type Messages struct {
	transcript.Page
	Total int
	file  *transcript.File // nil: nothing was saved
}

// Close closes the file.
func (m Messages) Close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}

// Messages returns at most limit messages of a session of the account from the one with index offset on, or the last
// ones if offset is negative.
func (s *Store) Messages(ctx context.Context, account, id string, offset, limit int) (Messages, error) {
	if _, err := s.Session(ctx, account, id); err != nil {
		return Messages{}, err
	}
	return again(func() (Messages, error) { return s.messages(id, offset, limit) })
}

// staleTries is how often something is done anew because another daemon saved the transcript meanwhile.
const staleTries = 20

func again[T any](do func() (T, error)) (out T, err error) {
	for range staleTries {
		if out, err = do(); !errors.Is(err, transcript.ErrStale) {
			break
		}
	}
	return out, err
}

func (s *Store) messages(id string, offset, limit int) (Messages, error) {
	f, err := s.read(id)
	if err != nil || f == nil {
		return Messages{}, err
	}
	m := Messages{Total: f.Messages(), file: f}
	if offset < 0 {
		offset = max(0, m.Total-limit)
	}
	if m.Page, err = f.Page(offset, limit); err != nil {
		return Messages{}, errors.Join(err, f.Close())
	}
	return m, nil
}

// Save stores messages. When it returns nil, they are on the disk. It runs one save of a session at a time.
func (s *Store) Save(ctx context.Context, account, id string, in Save) (tool.Session, error) {
	if err := transcript.Check(in.Messages); err != nil {
		return tool.Session{}, err
	}
	return s.rewrite(ctx, account, id, in.Tag, func(old *transcript.File, damaged error) (change, error) {
		if damaged != nil && (in.Append || !s.o.Transcripts.Regular(id)) {
			return change{}, damaged
		}
		c := change{add: in.Messages}
		if old != nil {
			c.about = old.Meta.About
			if in.Append {
				c.keep = old.Messages()
			}
		}
		set(&c.about.Model, in.Model)
		set(&c.about.Summary, in.Summary)
		set(&c.about.GitBranch, in.GitBranch)
		if c.keep == 0 {
			c.about.FirstPrompt = ""
		}
		if c.about.FirstPrompt == "" {
			c.about.FirstPrompt = transcript.FirstPrompt(in.Messages)
		}
		set(&c.about.FirstPrompt, in.FirstPrompt)
		return c, c.about.Check()
	})
}

func set(to, from *string) {
	if from != nil {
		*to = *from
	}
}

// Cut forgets what was said after the first message with this uuid or id. Without such a
// message nothing changes.
func (s *Store) Cut(ctx context.Context, account, id, message string) (tool.Session, error) {
	return s.rewrite(ctx, account, id, nil, func(old *transcript.File, damaged error) (change, error) {
		if damaged != nil || old == nil {
			return change{}, cmp.Or(damaged, errSame)
		}
		n, err := Until{Message: &message}.of(old)
		if err == nil && n == old.Messages() {
			err = errSame
		}
		return change{about: old.Meta.About, keep: n}, err
	})
}

var errSame = errors.New("nothing changes")

func isDamaged(err error) bool {
	e, ok := errors.AsType[*tool.Error](err)
	return ok && e.Code == "transcript_corrupt"
}

// retitle gives the file of a session the title and the tag of its row. One that is damaged
// gets them when it is saved anew.
func (s *Store) retitle(ctx context.Context, account, id string) error {
	_, err := s.rewrite(ctx, account, id, nil, func(old *transcript.File, damaged error) (change, error) {
		if damaged != nil || old == nil {
			return change{}, errSame
		}
		return change{about: old.Meta.About, keep: old.Messages()}, nil
	})
	return err
}

// change is what becomes of a transcript: so many messages stay, and these are added.
type change struct {
	about transcript.About
	keep  int
	add   []json.RawMessage
}

// rewrite saves what decide makes of a transcript, which is nil if there is none, or damaged.
// Its error errSame leaves everything as it is.
func (s *Store) rewrite(ctx context.Context, account, id string, tag *string,
	decide func(old *transcript.File, damaged error) (change, error),
) (tool.Session, error) {
	return again(func() (tool.Session, error) { return s.rewriteOnce(ctx, account, id, tag, decide) })
}

func (s *Store) rewriteOnce(ctx context.Context, account, id string, tag *string,
	decide func(old *transcript.File, damaged error) (change, error),
) (tool.Session, error) {
	sess, err := s.Session(ctx, account, id)
	if err != nil || s.o.Transcripts == nil {
		return sess, err
	}
	defer s.o.Transcripts.Lock(id)()
	if sess, err = s.Session(ctx, account, id); err != nil { // as it is now
		return sess, err
	}
	old, err := s.read(id)
	if err != nil && !isDamaged(err) {
		return sess, err
	}
	if old != nil {
		defer old.Close()
	}
	c, err := decide(old, err)
	if err == errSame {
		return sess, nil
	}
	if err != nil {
		return sess, err
	}
	set(&sess.Tag, tag)
	sess.Updated = s.db.Now().UTC()
	fresh, err := s.o.Transcripts.Write(metadata(sess, c.about), old, c.keep, c.add)
	if err != nil {
		return sess, err
	}
	defer fresh.Drop()
	sess, err = s.patch(ctx, account, id, sess.Updated, func(tx *sql.Tx, x *tool.Session) error {
		set(&x.Tag, tag)
		return fresh.Place(tx, id)
	})
	if err != nil {
		return sess, err
	}
	return sess, fresh.Placed(id)
}

func metadata(s tool.Session, about transcript.About) transcript.Metadata {
	return transcript.Metadata{
		ID: s.ID, Dir: s.Dir, CreatedAt: s.Created, UpdatedAt: s.Updated, Title: s.Title, Tag: s.Tag, About: about,
	}
}

// Until says how many of the first messages are meant: so many, or those up to the first one
// with this uuid or id, where there is one. Nil is all.
type Until struct {
	Messages *int
	Message  *string
}

func (u Until) of(f *transcript.File) (int, error) {
	n := f.Messages()
	if u.Messages != nil {
		n = min(n, *u.Messages)
	}
	if u.Message != nil {
		at, err := f.Find(*u.Message)
		if err != nil {
			return 0, err
		}
		if at >= 0 {
			n = min(n, at+1)
		}
	}
	return n, nil
}

// Fork makes the session as with the first messages of another session of the same account. The authors of the text
// that the model of the other session has seen count for the new one too.
func (s *Store) Fork(ctx context.Context, from, as tool.Session, until Until) (tool.Session, error) {
	as, err := s.prepare(as)
	if err != nil {
		return tool.Session{}, err
	}
	old, err := s.read(from.ID)
	if err != nil {
		return tool.Session{}, err
	}
	var fresh transcript.New
	if old != nil {
		defer old.Close()
		defer s.o.Transcripts.Lock(as.ID)()
		n, err := until.of(old)
		if err != nil {
			return tool.Session{}, err
		}
		about := old.Meta.About
		if n == 0 {
			about.FirstPrompt = ""
		}
		if fresh, err = s.o.Transcripts.Write(metadata(as, about), old, n, nil); err != nil {
			return tool.Session{}, err
		}
		defer fresh.Drop()
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		if as.Parent != "" { // the same place, and a name of its own
			if as.Agent, err = nextName(tx, from.Root(), from.Agent); err != nil {
				return err
			}
		}
		if as, err = s.create(tx, as); err != nil {
			return err
		}
		if err := s.forked(tx, from.ID, as.ID); err != nil || fresh == nil {
			return err
		}
		// A file without a row is removed with the next of that id.
		return errors.Join(fresh.Place(tx, as.ID), fresh.Placed(as.ID))
	})
	if err != nil {
		return tool.Session{}, err
	}
	err = s.locally(ctx, func(tx *sql.Tx, p part.Part) error {
		if p.Forked == nil {
			return nil
		}
		return p.Forked(tx, from.ID, as.ID)
	})
	if err != nil { // no session without what belongs to it
		return tool.Session{}, errors.Join(err, s.Delete(ctx, as.Account, as.ID))
	}
	return as, s.here(ctx, as)
}

func (s *Store) forked(tx *sql.Tx, from, to string) error {
	for _, p := range s.attached() {
		if p.Forked == nil || s.own(p) {
			continue
		}
		if err := p.Forked(tx, from, to); err != nil {
			return err
		}
	}
	return nil
}

// Recent returns the session of the account that changed last; false if it has none.
func (s *Store) Recent(ctx context.Context, account string) (sess tool.Session, ok bool, err error) {
	err = s.db.Read(ctx, func(tx *sql.Tx) error {
		sess, err = scan(tx.QueryRow(`SELECT `+columns+` FROM sessions
			WHERE account = $1 AND deleted = 0 AND parent = '' ORDER BY updated DESC, id DESC LIMIT 1`, account))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return sess, false, nil
	}
	return sess, err == nil, err
}

// Sweep removes the transcripts of deleted sessions that a killed daemon left behind.
func (s *Store) Sweep(ctx context.Context) error {
	if s.o.Transcripts == nil {
		return nil
	}
	ids, err := s.o.Transcripts.IDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		var deleted int64
		err := s.db.Read(ctx, func(tx *sql.Tx) error {
			return tx.QueryRow(`SELECT deleted FROM sessions WHERE id = $1`, id).Scan(&deleted)
		})
		switch {
		case errors.Is(err, sql.ErrNoRows): // of a database that was put back: nobody's to remove
		case err != nil:
			return err
		case deleted != 0:
			if err := s.o.Transcripts.Remove(id); err != nil {
				return err
			}
		}
	}
	return nil
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transcript"
	"github.com/sandboxd/sandboxd/internal/transfer"
)

// StoreCopy describes a copy of what daemons share, from a state directory to PostgreSQL or back.
type StoreCopy struct {
	From, To string // a state directory and the address of PostgreSQL, or the other way round
	Daemon   string // for a new state directory: the id of the daemon whose state it becomes
	Replace  bool   // remove what the state directory held before
	Told     func(transfer.Progress)
}

// StoreCopy copies, or goes on with a copy that was interrupted. It refuses a database that a daemon uses.
func (s *Site) StoreCopy(ctx context.Context, c StoreCopy) (copied []transfer.Copied, err error) {
	into := !IsURL(c.To) // a state directory
	if IsURL(c.From) != into {
		return nil, &tool.Error{
			Code: "validation_error", Msg: "a copy is between a state directory and PostgreSQL",
			Hint: "give the state directory of a daemon, and an address that begins with postgres://",
		}
	}
	if !into && (c.Replace || c.Daemon != "") {
		return nil, &tool.Error{
			Code: "validation_error", Msg: "--replace and --daemon are for copies into a state directory",
			Hint: "copy into an empty database of PostgreSQL",
		}
	}
	file, address := c.From, c.To
	if into {
		file, address = c.To, c.From
		if err := s.makeDatabase(ctx, file); err != nil {
			return nil, err
		}
	}
	local, err := s.openPlace(ctx, file, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	if err := local.lock(ctx); err != nil {
		return nil, err
	}
	if into {
		if err := local.db.Migrate(ctx, schemas(s.features)...); err != nil {
			return nil, withHint(fmt.Errorf("migrate database %s: %w", local.name, err))
		}
	} else if err := s.current(ctx, local); err != nil {
		return nil, err
	}
	id := c.Daemon
	if id == "" {
		if id, err = sessions.Daemon(ctx, local.db); err != nil {
			return nil, err
		}
	}
	remote, err := s.openPlace(ctx, address, id)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remote.Close()) }()
	if err := s.alone(ctx, remote, into); err != nil {
		return nil, err
	}
	if c.Daemon != "" {
		if err := become(ctx, local, remote, id); err != nil {
			return nil, err
		}
	}
	files, err := transcript.Open(filepath.Join(local.dir, transcriptDir))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	rows, err := transcript.OpenRows(ctx, remote.db)
	if err != nil {
		return nil, err
	}
	if !into { // else what it keeps of sessions would end when other daemons delete those
		if err := sessions.AllHere(ctx, local.db); err != nil {
			return nil, err
		}
	}
	p := transfer.Plan{
		From: transfer.Side{DB: local.db, Name: local.name, Transcripts: files},
		To:   transfer.Side{DB: remote.db, Name: remote.name, Transcripts: rows}, Daemon: id, Replace: c.Replace,
		Told: c.Told,
	}
	if into {
		p.From, p.To = p.To, p.From
	}
	copied, err = p.Run(ctx)
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrNotAlone) {
		return nil, &tool.Error{
			Code: "store_unavailable", Msg: err.Error(),
			Hint: "start the database, and run the same command again: it goes on with the copy",
		}
	}
	if err != nil {
		return nil, withHint(err)
	}
	return copied, nil
}

// become makes a state directory that of the daemon id, which has sessions in a database.
func become(ctx context.Context, local, remote *place, id string) error {
	known, err := sessions.Daemons(ctx, remote.db)
	if err != nil {
		return err
	}
	if !slices.Contains(known, id) {
		return &tool.Error{
			Code: "validation_error", Msg: fmt.Sprintf("no session in %s is of the daemon %q", remote.name, id),
			Hint: "name one of these: " + strings.Join(known, ", "),
		}
	}
	if err := sessions.Become(ctx, local.db, id); err != nil {
		return fmt.Errorf("the state directory %q cannot be of the daemon %q: %w", local.dir, id, err)
	}
	return nil
}

// makeDatabase makes the state directory and an empty database in it, if there is none.
func (s *Site) makeDatabase(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := ownDir(dir); err != nil {
		return err
	}
	file := filepath.Join(dir, filepath.Base(s.Paths.Database))
	if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if file == s.Paths.Database {
		if err := s.AuditOptions().CheckDatabase(file); err != nil {
			return tampered(err)
		}
	}
	db, err := store.Open(ctx, store.Options{Path: file, Sync: s.Config.Store.Sync}, schemas(s.features)...)
	if err != nil {
		return err
	}
	return db.Close()
}

// alone keeps daemons from writing to PostgreSQL. It brings a target to the version of this program, and refuses a
// source that has another.
func (s *Site) alone(ctx context.Context, p *place, source bool) error {
	if _, err := p.versions(ctx, s); err != nil {
		return err
	}
	users, err := p.users(ctx)
	if err != nil {
		return err
	}
	if len(users) == 0 {
		free, err := p.db.Alone(ctx)
		if err != nil {
			return withHint(err)
		}
		if !free {
			users = []string{"another copy, or a daemon that starts"}
		}
	}
	if len(users) > 0 {
		return &tool.Error{
			Code: "state_in_use", Msg: fmt.Sprintf("database %s is in use by %s", p.name, strings.Join(users, ", ")),
			Hint: "stop the daemons first; one that was killed counts for 30 seconds",
		}
	}
	if source {
		return s.current(ctx, p)
	}
	if err := p.db.Migrate(ctx, schemas(s.features)...); err != nil {
		return withHint(fmt.Errorf("migrate database %s: %w", p.name, err))
	}
	return nil
}

// current refuses a source if one of its tables has another version than this program.
func (s *Site) current(ctx context.Context, p *place) error {
	all, err := p.versions(ctx, s)
	if err != nil {
		return err
	}
	for _, v := range all {
		switch {
		case v.Have > v.Want:
			return withHint(fmt.Errorf("%w: %s has version %d of %s, this program knows %d",
				store.ErrNewer, p.name, v.Have, v.Name, v.Want))
		case v.Have < v.Want:
			return &tool.Error{
				Code: "store_outdated",
				Msg:  fmt.Sprintf("%s has version %d of the tables of %s, want %d", p.name, v.Have, v.Name, v.Want),
				Hint: "sandboxd store migrate brings it up to date",
			}
		}
	}
	from, err := p.db.UnfinishedFrom(ctx)
	if err == nil && from != "" {
		err = withHint(fmt.Errorf("%s: %w: from %s", p.name, store.ErrUnfinished, from))
	}
	return err
}

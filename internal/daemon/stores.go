package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transcript"
)

// storeWait is how long commands wait for a database that does not answer, and statementTime how long for
// one of their statements, which may read a whole table.
const (
	storeWait     = 10 * time.Second
	statementTime = time.Minute
)

// IsURL reports whether a place is named by an address of PostgreSQL, and not as a state directory. Text that only
// resembles an address counts as one: it is refused later, and is never printed, because it may hold a password.
func IsURL(where string) bool {
	return strings.Contains(where, "://") || strings.HasPrefix(where, "postgres") && strings.Contains(where, "@") ||
		strings.Contains(where, "password=")
}

// place is a database that a command has opened without changing it.
type place struct {
	db     *store.DB
	name   string // shown to people
	dir    string // the state directory; "" is PostgreSQL
	locked *audit.Lock
}

// openPlace opens the database of a state directory, or the one of store.url.
func (s *Site) openPlace(ctx context.Context, where, daemon string) (*place, error) {
	if IsURL(where) {
		c := s.Config.Store
		p := &place{name: store.Where(c.URL)}
		var err error
		p.db, err = store.OpenShared(ctx, store.SharedOptions{
			URL: c.URL, Password: c.Password, Timeout: max(c.Timeout, statementTime), MaxConns: c.MaxConns,
			Daemon: daemon, AsIs: true,
		})
		return p, withHint(err)
	}
	dir, err := filepath.Abs(where)
	if err != nil {
		return nil, err
	}
	p := &place{name: dir, dir: dir}
	file := filepath.Join(dir, filepath.Base(s.Paths.Database))
	if _, err := os.Stat(file); err != nil { // opening would make one
		return nil, &tool.Error{
			Code: "store_not_found", Msg: fmt.Sprintf("no database in %q: %v", dir, err),
			Hint: "name the state directory of a daemon, or an address that begins with postgres://",
		}
	}
	if err := ownDir(dir); err != nil {
		return nil, err
	}
	p.db, err = store.Open(ctx, store.Options{Path: file, Sync: s.Config.Store.Sync, AsIs: true})
	return p, err
}

// ownDir refuses the directory of another user, because the database makes files there that belong to the user who
// runs this command.
func ownDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return &tool.Error{
			Code: "store_of_another",
			Msg:  fmt.Sprintf("the state directory %q is of uid %d, not of this user", dir, st.Uid),
			Hint: "run it as that user: sudo -u USER sandboxd store …",
		}
	}
	return nil
}

func (p *place) Close() error {
	var err error
	if p.db != nil {
		err = p.db.Close()
	}
	if p.locked != nil {
		err = errors.Join(err, p.locked.Release())
	}
	return err
}

// versions returns the versions of the tables. It fails if the database does not answer.
func (p *place) versions(ctx context.Context, s *Site) ([]store.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	all, err := p.db.Versions(ctx, schemas(s.features)...)
	if err != nil {
		return nil, withHint(fmt.Errorf("open database %s: %w", p.name, err))
	}
	return all, nil
}

// users says in words who uses the database now.
func (p *place) users(ctx context.Context) (all []string, err error) {
	if p.dir != "" {
		pid, err := audit.User(ctx, p.dir)
		switch {
		case err != nil || pid == 0:
			return nil, err
		case pid < 0:
			return []string{"a process that is not known"}, nil
		}
		return []string{fmt.Sprintf("process %d", pid)}, nil
	}
	tables, err := p.db.Tables(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		if t.Name != "approval_daemons" {
			continue
		}
		alive, err := approvals.Alive(ctx, p.db)
		if err != nil {
			return nil, err
		}
		for _, id := range alive {
			all = append(all, "daemon "+id)
		}
	}
	n, err := p.db.Connected(ctx)
	if n > 0 {
		all = append(all, fmt.Sprintf("%d connections", n))
	}
	return all, err
}

// StoreState is what a database holds.
type StoreState struct {
	Database    string         `json:"database"`
	Kind        string         `json:"kind"` // sqlite or postgresql
	Bytes       int64          `json:"bytes"`
	UsedBy      []string       `json:"used_by"`
	Unfinished  string         `json:"unfinished_copy_from,omitempty"`
	Schemas     []StoreSchema  `json:"schemas"`
	Tables      []StoreTable   `json:"tables"`
	Transcripts *StoreMessages `json:"transcripts,omitempty"` // files beside SQLite; in PostgreSQL they are tables
}

// StoreSchema is the version that the tables of a package have.
type StoreSchema struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Known   int    `json:"known"`
}

// StoreTable is one table.
type StoreTable struct {
	Name   string `json:"name"`
	Rows   int64  `json:"rows"`
	Shared bool   `json:"shared"` // over PostgreSQL daemons share it; else each has its own
}

// StoreMessages are the transcripts that lie in files beside a SQLite database.
type StoreMessages struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// StoreStatus looks at databases without changing them: the one of a state directory or an address, or those that
// the configuration names.
func (s *Site) StoreStatus(ctx context.Context, where string) (all []StoreState, err error) {
	for _, one := range s.places(where) {
		state, err := s.storeState(ctx, one)
		if err != nil {
			return nil, err
		}
		all = append(all, state)
	}
	return all, nil
}

// places returns the databases that a command is to look at.
func (s *Site) places(where string) []string {
	if where != "" {
		return []string{where}
	}
	all := []string{s.Paths.StateDir}
	if s.Config.Store.URL != "" {
		all = append(all, s.Config.Store.URL)
	}
	return all
}

func (s *Site) storeState(ctx context.Context, where string) (state StoreState, err error) {
	p, err := s.openPlace(ctx, where, "")
	if err != nil {
		return state, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	state = StoreState{Database: p.name, Kind: "postgresql", UsedBy: []string{}}
	versions, err := p.versions(ctx, s)
	if err != nil {
		return state, err
	}
	for _, v := range versions {
		state.Schemas = append(state.Schemas, StoreSchema{v.Name, v.Have, v.Want})
	}
	users, err := p.users(ctx)
	if err != nil {
		return state, err
	}
	state.UsedBy = append(state.UsedBy, users...)
	if state.Bytes, err = p.db.Size(ctx); err != nil {
		return state, err
	}
	if state.Unfinished, err = p.db.UnfinishedFrom(ctx); err != nil {
		return state, err
	}
	rows, err := p.db.Rows(ctx)
	if err != nil {
		return state, err
	}
	shared := sharedTables(schemas(s.features))
	for _, t := range rows {
		state.Tables = append(state.Tables, StoreTable{t.Name, t.Rows, shared[t.Name]})
	}
	if p.dir != "" {
		state.Kind = "sqlite"
		state.Transcripts = &StoreMessages{}
		state.Transcripts.Files, state.Transcripts.Bytes = transcript.Use(filepath.Join(p.dir, transcriptDir))
	}
	return state, nil
}

var made = lazyregexp.New(`(?m)^CREATE TABLE (\w+)`)

// sharedTables returns the tables that daemons share over PostgreSQL.
func sharedTables(all []store.Schema) map[string]bool {
	found := map[string]bool{}
	for _, s := range all {
		for _, text := range s.Texts() {
			for _, m := range made().FindAllStringSubmatch(text, -1) {
				found[m[1]] = true
			}
		}
	}
	return found
}

// Migrated is a database that StoreMigrate has brought up to date, with the versions that it had before.
type Migrated struct {
	Database string          `json:"database"`
	Changed  []store.Version `json:"changed"`
}

// StoreMigrate brings the tables of databases to the version of this program. No daemon may use the state directory.
func (s *Site) StoreMigrate(ctx context.Context, where string) (all []Migrated, err error) {
	for _, one := range s.places(where) {
		m, err := s.storeMigrate(ctx, one)
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
	return all, nil
}

func (s *Site) storeMigrate(ctx context.Context, where string) (m Migrated, err error) {
	p, err := s.openPlace(ctx, where, "")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	m = Migrated{Database: p.name, Changed: []store.Version{}}
	if err := p.lock(ctx); err != nil {
		return m, err
	}
	before, err := p.versions(ctx, s)
	if err != nil {
		return m, err
	}
	if err := p.db.Migrate(ctx, schemas(s.features)...); err != nil {
		return m, withHint(fmt.Errorf("migrate database %s: %w", p.name, err))
	}
	for _, v := range before {
		if v.Have != v.Want {
			m.Changed = append(m.Changed, v)
		}
	}
	return m, nil
}

// lock keeps daemons from using a state directory until the command ends.
func (p *place) lock(ctx context.Context) (err error) {
	if p.dir == "" {
		return nil
	}
	if p.locked, err = audit.LockState(ctx, p.dir); err != nil {
		return &tool.Error{Code: "state_in_use", Msg: err.Error(), Hint: "stop the daemon first"}
	}
	return nil
}

package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transcript"
)

// startWait is how long the daemon waits at start for a database that does not answer.
const startWait = 25 * time.Second

// transcriptDir is the name of the directory for transcripts in a state directory.
const transcriptDir = "sessions"

// openState opens the database that store.url names. Without one, the state is in the daemon's own database.
func (d *daemon) openState(ctx context.Context, h *Site) error {
	h.local, d.state = d.db, d.db
	if h.Config.Store.URL == "" {
		dir, err := transcript.Open(filepath.Join(h.Paths.StateDir, transcriptDir))
		if err != nil {
			return err
		}
		h.transcripts, d.transcripts = dir, dir
		return nil
	}
	shared, err := h.openShared(ctx, d.db)
	if err != nil {
		return err
	}
	shared.ShareBy(budget.Account)
	d.state = shared
	rows, err := transcript.OpenRows(ctx, shared)
	if err != nil {
		return err
	}
	h.transcripts, d.transcripts = rows, rows
	return nil
}

// openShared opens the database of store.url. Its error says what to do.
func (s *Site) openShared(ctx context.Context, local *store.DB) (*store.DB, error) {
	id, err := sessions.Daemon(ctx, local)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	c := s.Config.Store
	db, err := store.OpenShared(ctx, store.SharedOptions{
		URL: c.URL, Password: c.Password, Timeout: c.Timeout, MaxConns: c.MaxConns, Daemon: id,
	}, schemas(s.features)...)
	return db, withHint(err)
}

// withHint adds what to do to the error of a database that cannot be used.
func withHint(err error) error {
	if err == nil {
		return nil
	}
	i := slices.IndexFunc(startHints, func(h startHint) bool { return errors.Is(err, h.cause) })
	if i < 0 {
		return err
	}
	return &tool.Error{Code: startHints[i].code, Msg: err.Error(), Hint: startHints[i].hint}
}

// startHint is an error of a database that cannot be used, with what to do.
type startHint struct {
	cause      error
	code, hint string
}

var startHints = []startHint{
	{
		store.ErrUnfinished, "store_unfinished",
		"run that sandboxd store copy again until it ends, or empty the database and copy anew",
	},
	{
		store.ErrDenied, "store_denied",
		"store.url names user and database, store.passwordFile the password; that user must be able to make tables",
	},
	{store.ErrNewer, "store_newer", "a newer sandboxd has changed the tables: update this one as well"},
	{store.ErrCorrupt, "store_foreign", "name an empty database in store.url, or one that sandboxd has made"},
	{store.ErrReadOnly, "store_unavailable", "store.url must name the server that can be written, not a copy of it"},
	{store.ErrFull, "store_unavailable", "make room on the disk of the database"},
	{
		store.ErrUnavailable, "store_unavailable",
		"start the database, or correct store.url; without store.url the daemon keeps its state in a file of its own",
	},
}

// behind reports that the daemon could not read what changed in the database that daemons share.
func (d *daemon) behind(err error) {
	if _, _, away := d.state.Away(); away { // the status and the requests report that already
		return
	}
	d.current.Load().log.Error("what other daemons changed is not known", "error", err)
}

// storeStatus returns what GET /status says of the database that daemons share. It is nil without one.
func (d *daemon) storeStatus() any {
	if !d.state.Shared() {
		return nil
	}
	s := struct {
		Database string     `json:"database"`
		Daemon   string     `json:"daemon"`
		Away     *time.Time `json:"away_since,omitempty"`
		Why      string     `json:"why,omitempty"`
	}{Database: store.Where(d.current.Load().Config.Store.URL), Daemon: d.state.Daemon()}
	if since, why, away := d.state.Away(); away {
		s.Away, s.Why = &since, why
	}
	return s
}

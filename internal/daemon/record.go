package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// openRecord opens the record with its anchor and its metrics.
func (d *daemon) openRecord(ctx context.Context, p *components) error {
	o := p.auditOptions()
	if command := p.Config.Audit.Anchor.Command; len(command) > 0 {
		o.Anchor.Ship = func(ctx context.Context, head []byte) error {
			ctx, cancel := context.WithTimeout(ctx, announceTime)
			defer cancel()
			_, err := d.hooksInForce().Program(ctx, command, head)
			return err
		}
	}
	o.Anchor.Told = func(err error) {
		if err != nil {
			p.log.Error("the record is not anchored", "error", err)
			return
		}
		p.log.Info("the record is anchored again")
	}
	var err error
	if d.record, err = audit.Open(ctx, o, audit.NewMirror(d.db)); err != nil {
		return err
	}
	for _, g := range d.record.Part().Metrics {
		d.metrics.Gauge(g.Name, g.Help, g.Value)
	}
	return nil
}

// AcceptRecord makes a record usable again that Serve refuses: see [audit.Accept].
func (s *Site) AcceptRecord(ctx context.Context, reason string) (_ audit.Accepted, err error) {
	if err := s.makeState(); err != nil {
		return audit.Accepted{}, err
	}
	lock, err := audit.LockState(ctx, s.Paths.StateDir)
	if err != nil {
		return audit.Accepted{}, &tool.Error{Code: "state_in_use", Msg: err.Error(), Hint: "stop the daemon first"}
	}
	defer lock.Release()
	db, err := store.Open(ctx, store.Options{Path: s.Paths.Database, Sync: s.Config.Store.Sync}, schemas(s.features)...)
	if errors.Is(err, store.ErrCorrupt) {
		return audit.Accepted{}, &tool.Error{
			Code: "database_damaged", Msg: err.Error(),
			Hint: "move it away, with its -wal and -shm, or put a copy in its place; then accept that",
		}
	}
	if err != nil {
		return audit.Accepted{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	o := s.AuditOptions()
	o.Redactor = audit.NewRedactor(audit.EnvSecrets(os.Environ())...)
	return audit.Accept(ctx, o, audit.NewMirror(db), fmt.Sprintf("uid:%d", os.Getuid()), reason)
}

// tampered adds a hint to the error for a record that somebody has changed.
func tampered(err error) error {
	if !errors.Is(err, audit.ErrTampered) {
		return err
	}
	return &tool.Error{
		Code: "record_tampered", Msg: err.Error(),
		Hint: "sandboxd audit verify says what does not fit. Keep a copy of the state directory: it is evidence. " +
			"Put back what was lost or moved; where that cannot be, sandboxd audit accept --reason TEXT begins again " +
			"from the present files, and records that",
	}
}

package daemon

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/sandboxd/sandboxd/internal/diskspace"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/limit"
)

// cageDir returns the directory with the private files of sessions.
func (s *Site) cageDir() string { return filepath.Join(s.Paths.StateDir, "cage") }

// openDisk makes the guard of the disks of the daemon. The components that it asks are made later.
func (d *daemon) openDisk(h *Site) *diskspace.Guard {
	d.disk = diskspace.New(diskspace.Options{
		State: h.Paths.StateDir, Private: h.cageDir(),
		Reserve: h.Config.Limits.DiskReserve, PerAccount: h.Config.Limits.AccountDisk,
		Sessions: d.keptBySessions,
		Files:    func(sessions []string) (map[string]int64, error) { return sandbox.Kept(h.cageDir(), sessions) },
		Held:     []string{h.AuditOptions().Path(), h.Paths.Database, h.Paths.Database + "-wal"},
		Tight:    d.db.Tight, Log: h.log,
		Uncopied: func() int64 { return d.db.Uncopied(context.Background()) },
	})
	return d.disk
}

// admit admits or refuses a request after which the daemon keeps n bytes more. Operators are always admitted,
// because they make room.
func (s *Site) admit(by route.Caller, n int64) error {
	if by.Role == tool.RoleOperator {
		s.disk.Look()
		return nil
	}
	return s.disk.Admit(by.Account, "", n)
}

// room says whether there is room on the disk for the call c.
func (s *Site) room(c *tool.Call) error {
	if c.Request.Role == tool.RoleOperator {
		s.disk.Look()
		return nil
	}
	return s.disk.Admit(c.Request.Account, c.Session.ID, 0)
}

// keptBySessions returns how much each session keeps in the database and in files of features.
func (d *daemon) keptBySessions(ctx context.Context) (map[string]diskspace.Session, error) {
	c := d.current.Load()
	all := map[string]diskspace.Session{}
	values, err := c.vars.Kept(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range d.features {
		if f.Kept != nil {
			for id, bytes := range f.Kept() {
				values[id] += bytes
			}
		}
		if f.KeptBy != nil {
			for account, bytes := range f.KeptBy() {
				all["/"+f.Name+"/"+account] = diskspace.Session{Account: account, Values: bytes} // no id of a session
			}
		}
	}
	return all, c.sessions.Kept(ctx, func(id, account string, bytes int64) {
		all[id] = diskspace.Session{Account: account, Values: bytes + values[id]}
	})
}

// doctorDisk reports how much is free for the record and for private files.
func (s *Site) doctorDisk() part.Finding {
	reserve := limit.Reserve{Bytes: s.Config.Limits.DiskReserve}
	f := part.Finding{What: "disk", OK: true}
	state := limit.FreeSpace([]string{s.Paths.StateDir})
	private := limit.FreeSpace([]string{s.cageDir()})
	for device, space := range state {
		f.Why = fmt.Sprintf("%s free for the record, of which %s are kept from agents",
			diskspace.Size(space.Avail), diskspace.Size(reserve.Keep(space)))
		f.OK = !reserve.Low(space)
		if _, same := private[device]; same || len(private) == 0 {
			f.Why += "; private files of sessions (STATE/cage) are on the same file system"
		}
	}
	for _, space := range private {
		f.OK = f.OK && !reserve.Low(space)
	}
	if len(state) == 0 {
		f.Why = "there is no state directory yet"
	} else if !f.OK {
		f.Why += ": agents are refused until there is room again"
	}
	return f
}

package hooks

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// permissionsKept is how long an update is kept that nothing renewed.
const permissionsKept = 90 * 24 * time.Hour

//go:embed migrations/*.sql migrations/postgres/*.sql
var migrations embed.FS

// Schema returns the tables of this package.
func Schema() store.Schema { return store.EmbeddedBoth("hooks", migrations) }

// PermissionUpdate changes what a tool may do for the rest of a session (H-23,
// P-21).
type PermissionUpdate struct {
	Tool     string `json:"tool"`
	Behavior string `json:"behavior"` // allow, deny or ask
}

func (p PermissionUpdate) check() error {
	if strings.TrimSpace(p.Tool) == "" {
		return fmt.Errorf("its permissionUpdate names no tool")
	}
	switch p.Behavior {
	case "allow", "deny", "ask":
		return nil
	}
	return fmt.Errorf("its permissionUpdate has the unknown behavior %q", p.Behavior)
}

// permissions knows the last update by session and tool, and keeps it before it counts.
type permissions struct {
	db    *store.DB // nil: in memory alone
	cache *store.Cache[said]

	mu  sync.Mutex // guards all
	all map[string]said
}

// renewAfter is how old an update is when the database hears of it again.
const renewAfter = 24 * time.Hour

// said holds the permissions that hooks set for the tools of one session, by name.
type said map[string]permission

type permission struct {
	behavior string
	set      int64 // ms since 1970; 0 without a database
}

func (s said) bytes() int {
	n := 100
	for name, p := range s {
		n += 60 + len(name) + len(p.behavior)
	}
	return n
}

// openPermissions deletes the expired permissions in the database. Without a database, permissions are in memory.
func openPermissions(db *store.DB) (*permissions, error) {
	p := &permissions{db: db, all: map[string]said{}}
	if db == nil {
		return p, nil
	}
	p.cache = store.NewCache(db, said.bytes)
	err := db.Write(context.Background(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM hook_permissions WHERE set_at < $1`, db.Now().Add(-permissionsKept).UnixMilli())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("drop what hooks said of permissions long ago: %w", err)
	}
	return p, nil
}

// of returns the permissions that hooks set for the tools of a session. The caller must not change them.
func (p *permissions) of(ctx context.Context, session string) (said, error) {
	if p.db == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.all[session], nil
	}
	return p.cache.Get(session, func() (said, error) {
		found := said{}
		err := p.db.Read(ctx, func(tx *sql.Tx) error {
			rows, err := tx.QueryContext(ctx, `SELECT tool_name, behavior, set_at FROM hook_permissions
				WHERE session_id = $1`, session)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var name string
				var p permission
				if err := rows.Scan(&name, &p.behavior, &p.set); err != nil {
					return err
				}
				found[name] = p
			}
			return rows.Err()
		})
		return found, err
	})
}

func (p *permissions) set(ctx context.Context, session string, u PermissionUpdate) error {
	if p.db == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		next := said{}
		maps.Copy(next, p.all[session])
		next[u.Tool] = permission{behavior: u.Behavior}
		p.all[session] = next
		return nil
	}
	now := p.db.Now()
	known, err := p.of(ctx, session)
	if have := known[u.Tool]; err == nil && have.behavior == u.Behavior &&
		now.Sub(time.UnixMilli(have.set)) < renewAfter {
		return nil
	}
	err = p.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO hook_permissions (session_id, tool_name, behavior, set_at)
			VALUES ($1, $2, $3, $4)
			ON CONFLICT (session_id, tool_name)
			DO UPDATE SET behavior = excluded.behavior, set_at = excluded.set_at`,
			session, u.Tool, u.Behavior, now.UnixMilli())
		p.cache.Drop(session)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep its permissionUpdate: %w", err)
	}
	return nil
}

// forgetAllows deletes the permissions that allow.
func (p *permissions) forgetAllows(ctx context.Context, session string) error {
	if p.db == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		next := said{}
		for name, known := range p.all[session] {
			if known.behavior != "allow" {
				next[name] = known
			}
		}
		p.all[session] = next
		return nil
	}
	known, err := p.of(ctx, session)
	if err == nil && len(known) == 0 {
		return nil
	}
	return p.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM hook_permissions WHERE session_id = $1 AND behavior = 'allow'`, session)
		p.cache.Drop(session)
		return err
	})
}

// tighten is apply for a session above that of the call. It uses only denials and asks, because an allow there was
// meant for another agent.
func (p *permissions) tighten(ctx context.Context, a tool.Advice, session, name string) (tool.Advice, error) {
	allowed := a.Allow
	a, err := p.apply(ctx, a, session, name)
	a.Allow = a.Allow && allowed
	return a, err
}

// apply adds what an update says of the tool; the hooks of the call win where
// they are stricter.
func (p *permissions) apply(ctx context.Context, a tool.Advice, session, name string) (tool.Advice, error) {
	if a.Block { // nothing is stricter
		settle(&a)
		return a, nil
	}
	known, err := p.of(ctx, session)
	if err != nil {
		return tool.Advice{Block: true, Reason: err.Error()}, fmt.Errorf("read what hooks said of permissions: %w", err)
	}
	said := known[name].behavior
	if as := known[tool.As(name)].behavior; as == "deny" || as == "ask" && said != "deny" {
		said = as
	}
	switch said {
	case "deny":
		a.Block, a.Reason = true, fmt.Sprintf("a hook denied %s for this session", name)
	case "ask":
		a.Ask, a.Reason = true, first(a.Reason, fmt.Sprintf("a hook wants %s to be asked for in this session", name))
	case "allow":
		a.Allow = true
	}
	settle(&a)
	return a, nil
}

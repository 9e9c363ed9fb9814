package hooks

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/store"
	"github.com/sandboxd/sandboxd/tool"
)

// permissionsKept is how long an update is kept that nothing renewed.
const permissionsKept = 90 * 24 * time.Hour

//go:embed migrations/*.sql
var migrations embed.FS

// Schema is the tables of this package.
func Schema() store.Schema { return store.Embedded("hooks", migrations) }

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

// permissions holds the last update by session and tool, and keeps it in the
// database, where there is one, before it counts.
type permissions struct {
	db  *store.DB
	mu  sync.RWMutex // guards all
	all map[string]map[string]string
}

// loadPermissions reads what was said before a restart.
func loadPermissions(db *store.DB) (*permissions, error) {
	p := &permissions{db: db, all: map[string]map[string]string{}}
	if db == nil {
		return p, nil
	}
	err := db.Write(context.Background(), func(tx *sql.Tx) error {
		if _, err := tx.Exec(`DELETE FROM hook_permissions WHERE set_at < $1`, time.Now().Add(-permissionsKept).UnixMilli()); err != nil {
			return err
		}
		rows, err := tx.Query(`SELECT session_id, tool_name, behavior FROM hook_permissions`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var session string
			var u PermissionUpdate
			if err := rows.Scan(&session, &u.Tool, &u.Behavior); err != nil {
				return err
			}
			p.remember(session, u)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read what hooks said of permissions: %w", err)
	}
	return p, nil
}

// remember is set in memory; the caller holds mu or is alone.
func (p *permissions) remember(session string, u PermissionUpdate) {
	if p.all[session] == nil {
		p.all[session] = map[string]string{}
	}
	p.all[session][u.Tool] = u.Behavior
}

func (p *permissions) set(ctx context.Context, session string, u PermissionUpdate) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[session][u.Tool] == u.Behavior {
		return nil
	}
	if p.db != nil {
		err := p.db.Write(ctx, func(tx *sql.Tx) error {
			_, err := tx.Exec(`INSERT INTO hook_permissions (session_id, tool_name, behavior, set_at) VALUES ($1, $2, $3, $4)
				ON CONFLICT (session_id, tool_name) DO UPDATE SET behavior = excluded.behavior, set_at = excluded.set_at`,
				session, u.Tool, u.Behavior, time.Now().UnixMilli())
			return err
		})
		if err != nil {
			return fmt.Errorf("keep its permissionUpdate: %w", err)
		}
	}
	p.remember(session, u)
	return nil
}

// forgetAllows drops what loosens; in the database first.
func (p *permissions) forgetAllows(ctx context.Context, session string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[session] == nil {
		return nil
	}
	if p.db != nil {
		err := p.db.Write(ctx, func(tx *sql.Tx) error {
			_, err := tx.Exec(`DELETE FROM hook_permissions WHERE session_id = $1 AND behavior = 'allow'`, session)
			return err
		})
		if err != nil {
			return err
		}
	}
	for name, behavior := range p.all[session] {
		if behavior == "allow" {
			delete(p.all[session], name)
		}
	}
	if len(p.all[session]) == 0 {
		delete(p.all, session)
	}
	return nil
}

// apply adds what an update says of the tool; the hooks of the call win where
// they are stricter.
func (p *permissions) apply(a tool.Advice, session, name string) tool.Advice {
	p.mu.RLock()
	behavior := p.all[session][name]
	p.mu.RUnlock()
	switch behavior {
	case "deny":
		if !a.Block {
			a.Block, a.Reason = true, fmt.Sprintf("a hook denied %s for this session", name)
		}
	case "ask":
		a.Ask, a.Reason = true, first(a.Reason, fmt.Sprintf("a hook wants %s to be asked for in this session", name))
	case "allow":
		a.Allow = true
	}
	settle(&a)
	return a
}

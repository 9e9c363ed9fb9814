package store

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is the channel of PostgreSQL on which daemons notify each other of changes.
const channel = "sandboxd"

// hub passes notices on to the goroutines of this daemon that wait for them.
type hub struct {
	mu   sync.Mutex // guards the fields below
	want map[chan struct{}]string
}

// tell wakes those who wait for a topic. "" is all topics.
func (h *hub) tell(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for told, of := range h.want {
		if topic == "" || topic == of {
			select {
			case told <- struct{}{}:
			default: // a notice is waiting already
			}
		}
	}
}

// Notify wakes those who follow [DB.Changes] of this topic when the write that is going on has ended, at this
// daemon and at those that share the database. It is for use inside Write only. Other daemons may miss it.
func (db *DB) Notify(tx *sql.Tx, topic string) error {
	db.after = append(db.after, func(bool) { db.hub.tell(topic) })
	if db.shared == nil {
		return nil
	}
	_, err := tx.Exec(`SELECT pg_notify($1, $2)`, channel, topic)
	return err
}

// lookEvery is how often daemons look for changes of which no notice came.
const lookEvery = 2 * time.Second

// Changes tells, until ctx ends, that something of a topic may have changed: at once, and when somebody
// said so. Of a database that daemons share it also tells after each reconnect, and every two
// seconds. What it was is read from the tables.
func (db *DB) Changes(ctx context.Context, topic string) <-chan struct{} {
	told := make(chan struct{}, 1)
	told <- struct{}{}
	db.hub.mu.Lock()
	defer db.hub.mu.Unlock()
	if db.hub.want == nil {
		db.hub.want = map[chan struct{}]string{}
	}
	db.hub.want[told] = topic
	context.AfterFunc(ctx, func() {
		db.hub.mu.Lock()
		defer db.hub.mu.Unlock()
		delete(db.hub.want, told)
		close(told)
	})
	return told
}

// listen receives the notices of other daemons on a connection of its own, until ctx ends.
func (db *DB) listen(ctx context.Context) {
	next := time.Now().Add(lookEvery)
	for ctx.Err() == nil {
		next = db.listenOnce(ctx, next)
		if time.Now().After(next) { // notices cannot come now
			db.hub.tell("")
			next = time.Now().Add(lookEvery)
		}
		pauseFor(ctx)
	}
}

// listenOnce listens until the connection breaks. It returns when everybody has to look next.
func (db *DB) listenOnce(ctx context.Context, next time.Time) time.Time {
	c, err := pgx.ConnectConfig(ctx, db.shared.config)
	if err != nil {
		return next
	}
	defer c.Close(context.WithoutCancel(ctx))
	if _, err := c.Exec(ctx, `LISTEN `+channel); err != nil {
		return next
	}
	next = time.Now()
	for {
		if !time.Now().Before(next) {
			db.hub.tell("")
			next = time.Now().Add(lookEvery)
		}
		wait, cancel := context.WithDeadline(ctx, next)
		n, err := c.WaitForNotification(wait)
		late := wait.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			db.hub.tell(n.Payload)
		case !late || c.IsClosed():
			return next
		}
	}
}

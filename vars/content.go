package vars

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"sync"
)

const (
	maxOutside = 64 << 20  // bytes of outside text that one session remembers; older ones are forgotten
	maxIndexed = 192 << 20 // bytes of outside text that are indexed in memory, over all sessions
)

// content keeps the index of outside texts of the sessions that are busy. It is a
// cache: what it lacks is read from the database.
type content struct {
	limit    int                 // bytes that one session remembers
	mu       sync.Mutex          // guards what follows
	sessions map[string]*outside // by session
	size     int                 // bytes of all
}

// outside is the index of one session.
type outside struct {
	mu   sync.Mutex // guards what follows
	x    shingles
	last int64 // id of the last text in it
}

func (c *content) forget(session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, session)
}

func (c *content) of(session string) *outside {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.sessions[session]
	if o == nil {
		o = &outside{}
		if c.sessions == nil {
			c.sessions = map[string]*outside{}
		}
		c.sessions[session] = o
	}
	return o
}

// grown counts what an index holds now and drops others when it is too much.
func (c *content) grown(session string, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += bytes; c.size <= maxIndexed {
		return
	}
	keep := c.sessions[session]
	c.sessions = map[string]*outside{session: keep} // the others are read again when needed
	c.size = bytes
}

// copied says whose outside text of the session a text holds a run of (32 bytes,
// as they are). Without a transaction it is errNotAtHand when the index lags.
func (s *System) copied(tx *sql.Tx, h head, text string) (authors, error) {
	if h.outside == 0 || len(text) < runLength {
		return 0, nil
	}
	o := s.content.of(h.session)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last < h.outside {
		if tx == nil {
			return 0, errNotAtHand
		}
		added, err := o.read(tx, h)
		if err != nil {
			return 0, err
		}
		s.content.grown(h.session, added)
	}
	return o.x.match(text), nil
}

// read indexes the texts that came since.
func (o *outside) read(tx *sql.Tx, h head) (added int, err error) {
	rows, err := tx.Query(`SELECT authored, text FROM var_untrusted WHERE session = $1 AND id > $2 ORDER BY id`, h.session, o.last)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var by authors
		var text sql.RawBytes
		if err := rows.Scan(&by, &text); err != nil {
			return 0, err
		}
		o.x.add(text, by)
		added += len(text)
	}
	o.last = h.outside
	return added, rows.Err()
}

// addUntrusted keeps a text from outside that the model is being shown.
func (s *System) addUntrusted(h *head, by authors, text string) error {
	if len(text) < runLength {
		return nil
	}
	digest := sha256.Sum256([]byte(text))
	// Seen before and by others too: a new row, since an index only grows.
	var known authors
	var size int
	err := s.row(`DELETE FROM var_untrusted WHERE session = $1 AND digest = $2 RETURNING authored, length(text)`,
		h.session, digest[:]).Scan(&known, &size)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	h.outsideSize += len(text) - size
	err = s.row(`INSERT INTO var_untrusted (session, digest, authored, text) VALUES ($1, $2, $3, $4) RETURNING id`,
		h.session, digest[:], by|known, []byte(text)).Scan(&h.outside)
	for err == nil && h.outsideSize > s.content.limit {
		size = 0
		err = s.row(`DELETE FROM var_untrusted WHERE id = (SELECT min(id) FROM var_untrusted WHERE session = $1 AND id < $2)
			RETURNING length(text)`, h.session, h.outside).Scan(&size)
		h.outsideSize -= size
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil // only the new one is left, however large
	}
	return err
}

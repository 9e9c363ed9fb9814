package store

import "sync"

// maxCached bounds a cache; the working set of a daemon is far smaller.
const maxCached = 10_000

// Cache keeps rows of one table in memory by their key. It is exact as long as
// all changes of the table go through it: then a Get sees what a Read that began
// at the same moment would. It is safe for concurrent use.
//
//	cache := store.NewCache[note](db)
//	n, err := cache.Get(id, func() (note, error) { return readNote(ctx, id) })
//	err = db.Write(ctx, func(tx *sql.Tx) error { …; cache.Set(id, n); return nil })
//
// Values are shared by all who get them: nobody may change what they point to.
type Cache[V any] struct {
	db *DB

	mu      sync.Mutex // guards what follows
	rows    map[string]V
	changes uint64
}

// NewCache returns an empty cache of a table in db.
func NewCache[V any](db *DB) *Cache[V] { return &Cache[V]{db: db, rows: map[string]V{}} }

// Get returns the row of this key, by read if it is not at hand. An error of read
// is returned and not kept.
func (c *Cache[V]) Get(key string, read func() (V, error)) (V, error) {
	c.mu.Lock()
	v, ok := c.rows[key]
	before := c.changes
	c.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := read()
	if err != nil {
		return v, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == before { // else it may be of before the change
		c.put(key, v)
	}
	return v, nil
}

// Set is for use inside Write only: the row changes when that is committed.
func (c *Cache[V]) Set(key string, v V) {
	c.after(key, func() { c.put(key, v) })
}

// Drop is for use inside Write only, for a row that is deleted or not known.
func (c *Cache[V]) Drop(key string) {
	c.after(key, func() {})
}

// after changes the row when the write that is going on has ended. One that failed
// may have been committed all the same, so the row is read again.
func (c *Cache[V]) after(key string, committed func()) {
	c.db.after = append(c.db.after, func(ok bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changes++
		delete(c.rows, key)
		if ok {
			committed()
		}
	})
}

func (c *Cache[V]) put(key string, v V) {
	if _, ok := c.rows[key]; !ok && len(c.rows) >= maxCached {
		c.rows = map[string]V{}
	}
	c.rows[key] = v
}

package store

import "sync"

// maxCached and maxCachedBytes bound a cache; the working set of a daemon is far smaller.
const (
	maxCached      = 10_000
	maxCachedBytes = 4 << 20
)

// Cache keeps rows of one table in memory by their key. It is exact as long as
// all changes of the table go through it: then a Get sees what a Read that began
// at the same moment would. So of a database that other daemons change it keeps
// nothing, and each Get reads. It is safe for concurrent use.
//
//	cache := store.NewCache(db, func(n note) int { return len(n.text) })
//	n, err := cache.Get(id, func() (note, error) { return readNote(ctx, id) })
//	err = db.Write(ctx, func(tx *sql.Tx) error { …; cache.Set(id, n); return nil })
//
// Values are shared by all who get them: nobody may change what they point to.
type Cache[V any] struct {
	db   *DB
	size func(V) int // returns about how many bytes of memory a row takes

	mu      sync.Mutex // guards the fields below
	rows    map[string]V
	bytes   int
	changes uint64
}

// NewCache returns an empty cache of a table in db. size returns how many bytes a row takes.
func NewCache[V any](db *DB, size func(V) int) *Cache[V] {
	return &Cache[V]{db: db, size: size, rows: map[string]V{}}
}

// Get returns the row of a key. If the cache does not have it, read gets it. An error of read is returned, and not
// kept.
func (c *Cache[V]) Get(key string, read func() (V, error)) (V, error) {
	if c.db.Shared() {
		return read()
	}
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
	if c.changes == before { // else the row may be from before the change
		c.put(key, v)
	}
	return v, nil
}

// Set changes a row when the write that is going on is committed. It is for use inside Write only.
func (c *Cache[V]) Set(key string, v V) {
	c.after(key, func() { c.put(key, v) })
}

// Drop forgets a row when the write that is going on has ended: it was deleted, or its value is not known. It is for
// use inside Write only.
func (c *Cache[V]) Drop(key string) {
	c.after(key, func() {})
}

// after changes the row when the write that is going on has ended. A write that failed may have been committed all
// the same, so the row is read again.
func (c *Cache[V]) after(key string, committed func()) {
	if c.db.Shared() {
		return
	}
	c.db.after = append(c.db.after, func(ok bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changes++
		if v, ok := c.rows[key]; ok {
			c.bytes -= c.size(v)
			delete(c.rows, key)
		}
		if ok {
			committed()
		}
	})
}

func (c *Cache[V]) put(key string, v V) {
	if old, ok := c.rows[key]; ok {
		c.bytes -= c.size(old)
	}
	if c.bytes += c.size(v); c.bytes > maxCachedBytes || len(c.rows) >= maxCached {
		c.rows, c.bytes = map[string]V{}, c.size(v)
	}
	c.rows[key] = v
}

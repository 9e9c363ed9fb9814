package store

import "database/sql"

// Tx is a transaction whose frequent statements stay prepared.
type Tx struct {
	*sql.Tx
	db     *DB
	writes bool
}

// Reading returns the transaction of a Read.
func (db *DB) Reading(tx *sql.Tx) Tx { return Tx{tx, db, false} }

// Writing returns the transaction of a Write.
func (db *DB) Writing(tx *sql.Tx) Tx { return Tx{tx, db, true} }

// Row runs a query that finds at most one row. The query stays prepared.
func (t Tx) Row(query string, args ...any) *sql.Row {
	st, err := t.prepared(query)
	if st == nil || err != nil {
		return t.QueryRow(query, args...) // QueryRow reports the error
	}
	return st.QueryRow(args...)
}

// prepared returns nil for a statement that the driver keeps: see [DB.Exec].
func (t Tx) prepared(query string) (*sql.Stmt, error) {
	switch {
	case !t.writes:
		return t.db.ReadStmt(t.Tx, query)
	case t.db.shared != nil:
		return nil, nil
	}
	return t.db.stmt(query)
}

// Run runs a statement that stays prepared. It is for use inside Write only.
func (t Tx) Run(query string, args ...any) error {
	_, err := t.db.Exec(query, args...)
	return err
}

// Each runs a query and passes each row to scan. No other statement may run until it returns.
func (t Tx) Each(scan func(*sql.Rows) error, query string, args ...any) error {
	return each(scan, func() (*sql.Rows, error) { return t.Query(query, args...) })
}

// EachKept is Each for a frequent query, which stays prepared.
func (t Tx) EachKept(scan func(*sql.Rows) error, query string, args ...any) error {
	return each(scan, func() (*sql.Rows, error) {
		st, err := t.prepared(query)
		if st == nil || err != nil {
			return t.Query(query, args...) // Query reports the error
		}
		return st.Query(args...)
	})
}

func each(scan func(*sql.Rows) error, query func() (*sql.Rows, error)) error {
	rows, err := query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

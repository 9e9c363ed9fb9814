package vars

import (
	"crypto/sha256"
	"database/sql"
	"errors"

	"github.com/sandboxd/sandboxd/internal/provenance"
)

// copied returns the authors of the outside text of the scope that the text repeats. Without a
// transaction it returns errNotAtHand if the index lags behind the database.
func (s *System) copied(tx *sql.Tx, h head, text string) (provenance.Authors, error) {
	var read provenance.Reader
	if tx != nil {
		read = func(after int64, add func(provenance.Authors, []byte)) error {
			return readUntrusted(tx, h.in, after, add)
		}
	}
	by, err := s.content.Copied(h.in, h.scope.outside, text, read)
	if errors.Is(err, provenance.ErrBehind) {
		err = errNotAtHand
	}
	return by, err
}

func readUntrusted(tx *sql.Tx, scope string, after int64, add func(provenance.Authors, []byte)) error {
	rows, err := tx.Query(`SELECT authored, text FROM var_untrusted WHERE scope = $1 AND id > $2 ORDER BY id`,
		scope, after)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var by provenance.Authors
		var text sql.RawBytes
		if err := rows.Scan(&by, &text); err != nil {
			return err
		}
		add(by, text)
	}
	return rows.Err()
}

// addUntrusted adds to the index a text from outside that the model is about to see.
func (s *System) addUntrusted(h *head, by provenance.Authors, text string) error {
	if len(text) < provenance.RunLength {
		return nil
	}
	digest := sha256.Sum256([]byte(text))
	// Seen before and by others too: a new row, since an index only grows.
	var known provenance.Authors
	var size int
	err := s.row(`DELETE FROM var_untrusted WHERE scope = $1 AND digest = $2 RETURNING authored, length(text)`,
		h.in, digest[:]).Scan(&known, &size)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	h.scope.size += len(text) - size
	err = s.row(`INSERT INTO var_untrusted (scope, digest, authored, text) VALUES ($1, $2, $3, $4) RETURNING id`,
		h.in, digest[:], by|known, []byte(text)).Scan(&h.scope.outside)
	for err == nil && h.scope.size > s.o.MaxOutside {
		size = 0
		err = s.row(`DELETE FROM var_untrusted WHERE id = (
				SELECT min(id) FROM var_untrusted WHERE scope = $1 AND id < $2)
			RETURNING length(text)`, h.in, h.scope.outside).Scan(&size)
		h.scope.size -= size
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil // only the new one is left, however large
	}
	return err
}

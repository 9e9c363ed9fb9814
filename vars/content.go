package vars

import "database/sql"

type content struct{}

func (c *content) forget(string) {}

func (s *System) copied(*sql.Tx, head, string) (authors, error) { return 0, nil }

func (s *System) addUntrusted(*head, authors, string) error { return nil }

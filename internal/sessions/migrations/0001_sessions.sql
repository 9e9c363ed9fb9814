-- A deleted session keeps its id and account, so that nobody else can take the
-- name that grants and records speak of, and nothing else.
CREATE TABLE sessions (
	id      TEXT    NOT NULL PRIMARY KEY,
	account TEXT    NOT NULL,
	deleted INTEGER NOT NULL DEFAULT 0,
	dir     TEXT    NOT NULL,
	tag     TEXT    NOT NULL,
	created INTEGER NOT NULL, -- Unix nanoseconds
	updated INTEGER NOT NULL,
	data    TEXT    NOT NULL  -- the rest, as JSON
);
CREATE INDEX sessions_of_account ON sessions (account, deleted, created, id);

-- As the tables over a file, in one step. Text compares by its bytes there, too.
CREATE TABLE sessions (
	id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	account TEXT COLLATE "C" NOT NULL,
	deleted BIGINT NOT NULL DEFAULT 0,
	dir     TEXT   NOT NULL,
	tag     TEXT   NOT NULL,
	created BIGINT NOT NULL, -- Unix nanoseconds
	updated BIGINT NOT NULL,
	data    TEXT   NOT NULL, -- the rest, as JSON
	begun   TEXT   NOT NULL DEFAULT '',
	used    BIGINT NOT NULL DEFAULT 0,
	parent  TEXT COLLATE "C" NOT NULL DEFAULT '',
	agent   TEXT COLLATE "C" NOT NULL DEFAULT '',
	root    TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX sessions_agents ON sessions (root, agent) WHERE deleted = 0 AND agent <> '';
CREATE INDEX sessions_below ON sessions (parent) WHERE parent <> '';
CREATE INDEX sessions_of_account ON sessions (account, deleted, created, id);

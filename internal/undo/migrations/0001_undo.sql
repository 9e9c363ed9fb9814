-- Calls that changed files. A line is there before the first change.
CREATE TABLE undo_calls (
	call_id TEXT PRIMARY KEY,
	n       BIGINT NOT NULL UNIQUE, -- their order
	account TEXT NOT NULL,
	session TEXT NOT NULL,          -- empty when it was deleted
	tool    TEXT NOT NULL,
	dir     TEXT NOT NULL,
	rights  TEXT NOT NULL,          -- JSON of who made the changes; empty is the daemon
	at      BIGINT NOT NULL,        -- unix milliseconds
	settled BIGINT NOT NULL,        -- 0 while the call runs
	why     TEXT NOT NULL,          -- not everything is kept
	undoes  TEXT NOT NULL,          -- the call that this one undoes
	plan    TEXT NOT NULL           -- JSON of what it goes on with after a crash
);
CREATE INDEX undo_calls_session ON undo_calls (session, n);
CREATE INDEX undo_calls_account ON undo_calls (account, n);

CREATE TABLE undo_changes (
	call_id TEXT NOT NULL REFERENCES undo_calls (call_id) ON DELETE CASCADE,
	n       BIGINT NOT NULL, -- the order in which they were made
	path    BLOB NOT NULL,
	temp    BLOB NOT NULL,   -- a file that a crash may have left
	state   BIGINT NOT NULL, -- 0 begun, 1 kept, 2 made
	before  TEXT NOT NULL,   -- JSON of what was there
	after   TEXT NOT NULL,
	sum     TEXT NOT NULL,   -- of the content that is kept, "" for none
	undone  TEXT NOT NULL,   -- the call that undid it
	PRIMARY KEY (call_id, n)
);
CREATE INDEX undo_changes_path ON undo_changes (path);
CREATE INDEX undo_changes_sum ON undo_changes (sum);

CREATE TABLE undo_objects (
	sum  TEXT PRIMARY KEY, -- SHA-256 of the content, and name of its file
	size BIGINT NOT NULL
);

-- What the model of a session is told with its next call.
CREATE TABLE undo_notices (
	session TEXT NOT NULL,
	text    TEXT NOT NULL
);

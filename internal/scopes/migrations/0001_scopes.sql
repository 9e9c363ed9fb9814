-- The hosts of variables. A session is its branch main, which is never deleted by itself; a global
-- variable needs no host.
CREATE TABLE scope_branches (
	session      TEXT    NOT NULL,
	branch       TEXT    NOT NULL,
	account      TEXT    NOT NULL,
	source_floor TEXT    NOT NULL DEFAULT '',
	created      INTEGER NOT NULL, -- Unix milliseconds, as every time here
	PRIMARY KEY (session, branch)
);
CREATE INDEX scope_branches_by_name ON scope_branches (account, branch);
INSERT INTO scope_branches (session, branch, account, created)
	SELECT id, 'main', account, created / 1000000 FROM sessions WHERE deleted = 0;

CREATE TABLE scope_floors (
	id         TEXT    NOT NULL PRIMARY KEY,
	account    TEXT    NOT NULL,
	session    TEXT    NOT NULL,
	branch     TEXT    NOT NULL,
	floor_no   INTEGER NOT NULL,
	parent     TEXT    NOT NULL DEFAULT '',
	state      TEXT    NOT NULL,
	token_in   INTEGER NOT NULL DEFAULT 0,
	token_out  INTEGER NOT NULL DEFAULT 0,
	run        TEXT    NOT NULL DEFAULT '', -- the last generation, and how many there were
	attempt    INTEGER NOT NULL DEFAULT 0,
	snapshot   INTEGER NOT NULL DEFAULT 0,  -- 1: scope_snapshots has what it saw, which may be nothing
	created    INTEGER NOT NULL,
	updated    INTEGER NOT NULL,
	superseded INTEGER NOT NULL DEFAULT 0   -- when; 0 is live
);
CREATE UNIQUE INDEX scope_floors_live ON scope_floors (session, branch, floor_no) WHERE superseded = 0;
CREATE INDEX scope_floors_of_account ON scope_floors (account, created, id);

CREATE TABLE scope_pages (
	id       TEXT    NOT NULL PRIMARY KEY,
	account  TEXT    NOT NULL,
	floor    TEXT    NOT NULL,
	page_no  INTEGER NOT NULL,
	kind     TEXT    NOT NULL,
	active   INTEGER NOT NULL,
	version  INTEGER NOT NULL,
	checksum TEXT,
	decision TEXT    NOT NULL DEFAULT '',
	created  INTEGER NOT NULL,
	updated  INTEGER NOT NULL
);
CREATE UNIQUE INDEX scope_pages_of_floor ON scope_pages (floor, page_no, version);
CREATE INDEX scope_pages_of_account ON scope_pages (account, created, id);

-- Of a branch host is its session, and branch its name; of others host is the scope_id, and branch ''.
CREATE TABLE scope_vars (
	id      TEXT    NOT NULL PRIMARY KEY,
	account TEXT    NOT NULL,
	scope   TEXT    NOT NULL,
	host    TEXT    NOT NULL,
	branch  TEXT    NOT NULL DEFAULT '',
	key     TEXT    NOT NULL,
	authors INTEGER NOT NULL,
	settled INTEGER NOT NULL DEFAULT 0, -- of a page: 1 if a staged write made it, which was promoted then or never is
	updated INTEGER NOT NULL,
	value   BLOB    NOT NULL            -- JSON; last: large ones are not read for what stands before
);
CREATE UNIQUE INDEX scope_vars_identity ON scope_vars (account, scope, host, branch, key);
CREATE INDEX scope_vars_by_time ON scope_vars (account, updated, id);
CREATE INDEX scope_vars_by_key ON scope_vars (account, key, id);

-- How many variables an account has in each scope, for the totals of lists.
CREATE TABLE scope_counts (
	account TEXT    NOT NULL,
	scope   TEXT    NOT NULL,
	vars    INTEGER NOT NULL,
	PRIMARY KEY (account, scope)
);

-- What an account sees at the commit of a floor: branch over chat.
CREATE TABLE scope_snapshots (
	floor TEXT NOT NULL,
	key   TEXT NOT NULL,
	value BLOB NOT NULL,
	PRIMARY KEY (floor, key)
);

CREATE TABLE scope_staged (
	id       TEXT    NOT NULL PRIMARY KEY,
	account  TEXT    NOT NULL,
	page     TEXT    NOT NULL,
	key      TEXT    NOT NULL,
	op       TEXT    NOT NULL,
	intent   TEXT    NOT NULL,
	policy   TEXT    NOT NULL,
	reason   TEXT    NOT NULL,
	authors  INTEGER NOT NULL,
	run      TEXT    NOT NULL,
	attempt  INTEGER NOT NULL,
	status   TEXT    NOT NULL,
	decision TEXT    NOT NULL DEFAULT '',
	created  INTEGER NOT NULL,
	resolved INTEGER NOT NULL DEFAULT 0,
	value    BLOB    NOT NULL
);
CREATE INDEX scope_staged_of_page ON scope_staged (page, created, id);

CREATE TABLE scope_promotions (
	id      TEXT    NOT NULL PRIMARY KEY,
	account TEXT    NOT NULL,
	page    TEXT    NOT NULL,
	floor   TEXT    NOT NULL,
	staged  TEXT    NOT NULL, -- '': a variable that was written to the page directly
	key     TEXT    NOT NULL,
	policy  TEXT    NOT NULL,
	source  TEXT    NOT NULL,
	target  TEXT    NOT NULL,
	created INTEGER NOT NULL,
	value   BLOB    NOT NULL
);
CREATE INDEX scope_promotions_of_page ON scope_promotions (page, created, id);

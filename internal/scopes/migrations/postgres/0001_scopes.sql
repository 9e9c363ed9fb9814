-- As the tables over a file, in one step.
-- The hosts of variables. A session is its branch main, which is never deleted by itself; a global
-- variable needs no host.
CREATE TABLE scope_branches (
	session      TEXT COLLATE "C"    NOT NULL,
	branch       TEXT COLLATE "C"    NOT NULL,
	account      TEXT COLLATE "C"    NOT NULL,
	source_floor TEXT    NOT NULL DEFAULT '',
	created      BIGINT  NOT NULL, -- Unix milliseconds, as every time here
	PRIMARY KEY (session, branch)
);
CREATE INDEX scope_branches_by_name ON scope_branches (account, branch);

CREATE TABLE scope_floors (
	id         TEXT COLLATE "C"    NOT NULL PRIMARY KEY,
	account    TEXT COLLATE "C"    NOT NULL,
	session    TEXT COLLATE "C"    NOT NULL,
	branch     TEXT COLLATE "C"    NOT NULL,
	floor_no   BIGINT  NOT NULL,
	parent     TEXT    NOT NULL DEFAULT '',
	state      TEXT    NOT NULL,
	token_in   BIGINT  NOT NULL DEFAULT 0,
	token_out  BIGINT  NOT NULL DEFAULT 0,
	run        TEXT    NOT NULL DEFAULT '', -- the last generation, and how many there were
	attempt    BIGINT  NOT NULL DEFAULT 0,
	snapshot   BIGINT  NOT NULL DEFAULT 0,  -- 1: scope_snapshots has what it saw, which may be nothing
	created    BIGINT  NOT NULL,
	updated    BIGINT  NOT NULL,
	superseded BIGINT  NOT NULL DEFAULT 0   -- when; 0 is live
);
CREATE UNIQUE INDEX scope_floors_live ON scope_floors (session, branch, floor_no) WHERE superseded = 0;
CREATE INDEX scope_floors_of_account ON scope_floors (account, created, id);

CREATE TABLE scope_pages (
	id       TEXT COLLATE "C"    NOT NULL PRIMARY KEY,
	account  TEXT COLLATE "C"    NOT NULL,
	floor    TEXT COLLATE "C"    NOT NULL,
	page_no  BIGINT  NOT NULL,
	kind     TEXT    NOT NULL,
	active   BIGINT  NOT NULL,
	version  BIGINT  NOT NULL,
	checksum TEXT,
	decision TEXT    NOT NULL DEFAULT '',
	created  BIGINT  NOT NULL,
	updated  BIGINT  NOT NULL
);
CREATE UNIQUE INDEX scope_pages_of_floor ON scope_pages (floor, page_no, version);
CREATE INDEX scope_pages_of_account ON scope_pages (account, created, id);

-- Of a branch host is its session, and branch its name; of others host is the scope_id, and branch ''.
CREATE TABLE scope_vars (
	id      TEXT COLLATE "C"    NOT NULL PRIMARY KEY,
	account TEXT COLLATE "C"    NOT NULL,
	scope   TEXT COLLATE "C"    NOT NULL,
	host    TEXT COLLATE "C"    NOT NULL,
	branch  TEXT COLLATE "C"    NOT NULL DEFAULT '',
	key     TEXT COLLATE "C"    NOT NULL,
	authors BIGINT  NOT NULL,
	settled BIGINT  NOT NULL DEFAULT 0, -- of a page: 1 if a staged write made it, which was promoted then or never is
	updated BIGINT  NOT NULL,
	value   BYTEA    NOT NULL            -- JSON; last: large ones are not read for what stands before
);
CREATE UNIQUE INDEX scope_vars_identity ON scope_vars (account, scope, host, branch, key);
CREATE INDEX scope_vars_by_time ON scope_vars (account, updated, id);
CREATE INDEX scope_vars_by_key ON scope_vars (account, key, id);

-- How many variables an account has in each scope, for the totals of lists.
CREATE TABLE scope_counts (
	account TEXT COLLATE "C"    NOT NULL,
	scope   TEXT COLLATE "C"    NOT NULL,
	vars    BIGINT  NOT NULL,
	PRIMARY KEY (account, scope)
);

-- What an account sees at the commit of a floor: branch over chat.
CREATE TABLE scope_snapshots (
	floor TEXT COLLATE "C" NOT NULL,
	key   TEXT COLLATE "C" NOT NULL,
	value BYTEA NOT NULL,
	PRIMARY KEY (floor, key)
);

CREATE TABLE scope_staged (
	id       TEXT COLLATE "C"    NOT NULL PRIMARY KEY,
	account  TEXT COLLATE "C"    NOT NULL,
	page     TEXT COLLATE "C"    NOT NULL,
	key      TEXT COLLATE "C"    NOT NULL,
	op       TEXT    NOT NULL,
	intent   TEXT    NOT NULL,
	policy   TEXT    NOT NULL,
	reason   TEXT    NOT NULL,
	authors  BIGINT  NOT NULL,
	run      TEXT    NOT NULL,
	attempt  BIGINT  NOT NULL,
	status   TEXT    NOT NULL,
	decision TEXT    NOT NULL DEFAULT '',
	created  BIGINT  NOT NULL,
	resolved BIGINT  NOT NULL DEFAULT 0,
	value    BYTEA    NOT NULL
);
CREATE INDEX scope_staged_of_page ON scope_staged (page, created, id);

CREATE TABLE scope_promotions (
	id      TEXT COLLATE "C"    NOT NULL PRIMARY KEY,
	account TEXT COLLATE "C"    NOT NULL,
	page    TEXT COLLATE "C"    NOT NULL,
	floor   TEXT COLLATE "C"    NOT NULL,
	staged  TEXT    NOT NULL, -- '': a variable that was written to the page directly
	key     TEXT COLLATE "C"    NOT NULL,
	policy  TEXT    NOT NULL,
	source  TEXT    NOT NULL,
	target  TEXT    NOT NULL,
	created BIGINT  NOT NULL,
	value   BYTEA    NOT NULL
);
CREATE INDEX scope_promotions_of_page ON scope_promotions (page, created, id);

-- Floors are looked for by their session, and by their parent when that is deleted.
CREATE INDEX scope_floors_of_session ON scope_floors (session, parent);
-- The newest of one scope.
CREATE INDEX scope_vars_by_scope ON scope_vars (account, scope, updated, id);

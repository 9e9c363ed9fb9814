-- One row per session that has variables: what every write and every call needs
-- without counting.
CREATE TABLE var_sessions (
	session  TEXT    NOT NULL PRIMARY KEY,
	gone     INTEGER NOT NULL DEFAULT 0, -- deleted: nothing may be stored any more
	total    INTEGER NOT NULL DEFAULT 0, -- variables
	kept     INTEGER NOT NULL DEFAULT 0, -- of them with keep
	released INTEGER NOT NULL DEFAULT 0, -- authors of all that the model was shown
	rules    TEXT    NOT NULL DEFAULT '', -- revision of the rules that were registered
	outside  INTEGER NOT NULL DEFAULT 0   -- last id of its texts in var_untrusted
);

CREATE TABLE vars (
	session  TEXT    NOT NULL,
	name     TEXT    NOT NULL,
	type     TEXT    NOT NULL,
	keep     INTEGER NOT NULL,
	created  INTEGER NOT NULL, -- Unix nanoseconds
	updated  INTEGER NOT NULL,
	visited  INTEGER NOT NULL,
	refs     INTEGER NOT NULL,
	length   INTEGER NOT NULL, -- of the value, in characters
	authored INTEGER NOT NULL, -- authors of the text itself
	origins  INTEGER NOT NULL, -- and of what its author had been shown
	tags     TEXT    NOT NULL, -- each between line feeds
	descr    TEXT    NOT NULL,
	folded   TEXT    NOT NULL, -- name, line feed, description, in lower case
	value    BLOB    NOT NULL  -- last: lists need not walk over it
);
CREATE UNIQUE INDEX vars_by_name ON vars (session, name);
-- Eviction takes the first; ties are sorted by the query.
CREATE INDEX vars_by_visit ON vars (session, visited) WHERE keep = 0;

-- Results that a person must release. No query but publish reads them.
CREATE TABLE var_pending (
	session  TEXT    NOT NULL,
	node     TEXT    NOT NULL,
	name     TEXT    NOT NULL,
	type     TEXT    NOT NULL,
	authored INTEGER NOT NULL,
	descr    TEXT    NOT NULL,
	value    BLOB    NOT NULL,
	PRIMARY KEY (session, node, name)
);

-- Texts from outside that the model has been shown. They outlive their variables:
-- removing one does not make the model forget it.
CREATE TABLE var_untrusted (
	id       INTEGER PRIMARY KEY AUTOINCREMENT, -- an id never means another text
	session  TEXT    NOT NULL,
	digest   BLOB    NOT NULL,
	authored INTEGER NOT NULL,
	text     BLOB    NOT NULL
);
CREATE UNIQUE INDEX var_untrusted_once ON var_untrusted (session, digest);
CREATE INDEX var_untrusted_order ON var_untrusted (session, id);

-- Which hosts the text of the web came from: one a line, and the last one may stand for others.
ALTER TABLE var_sessions ADD COLUMN hosts TEXT NOT NULL DEFAULT ''; -- of all that the model was shown
ALTER TABLE var_scopes ADD COLUMN hosts TEXT NOT NULL DEFAULT ''; -- without a pause of a day

-- The value stays the last column, so that lists need not walk over it.
ALTER TABLE vars RENAME TO vars_before;
DROP INDEX vars_by_name;
DROP INDEX vars_by_visit;
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
	hosts    TEXT    NOT NULL, -- of those of origins that are the web
	tags     TEXT    NOT NULL, -- each between line feeds
	descr    TEXT    NOT NULL,
	folded   TEXT    NOT NULL, -- name, line feed, description, in lower case
	value    BLOB    NOT NULL
);
INSERT INTO vars SELECT session, name, type, keep, created, updated, visited, refs, length, authored, origins, '',
	tags, descr, folded, value FROM vars_before;
DROP TABLE vars_before;
CREATE UNIQUE INDEX vars_by_name ON vars (session, name);
-- Eviction takes the first; ties are sorted by the query.
CREATE INDEX vars_by_visit ON vars (session, visited) WHERE keep = 0;

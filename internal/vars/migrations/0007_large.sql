-- A visit writes the row of a variable again, and with it all that the row holds. So a value of more than 64 KiB has a
-- row of its own, which goes with the row that names it.
CREATE TABLE var_large (
	id    INTEGER PRIMARY KEY,
	value BLOB NOT NULL
);
INSERT INTO var_large (id, value) SELECT rowid, value FROM vars WHERE length(value) > 65536;

-- The value stays the last column, so that lists need not walk over it.
ALTER TABLE vars RENAME TO vars_before;
DROP INDEX vars_by_name;
DROP INDEX vars_by_visit;
DROP INDEX vars_kept;
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
	large    INTEGER NOT NULL, -- id of the value in var_large; 0 is a value in this row
	value    BLOB    NOT NULL
);
INSERT INTO vars (rowid, session, name, type, keep, created, updated, visited, refs, length, authored, origins, hosts,
		tags, descr, folded, large, value)
	SELECT rowid, session, name, type, keep, created, updated, visited, refs, length, authored, origins, hosts,
		tags, descr, folded, CASE WHEN length(value) > 65536 THEN rowid ELSE 0 END,
		CASE WHEN length(value) > 65536 THEN x'' ELSE value END FROM vars_before;
DROP TABLE vars_before;
CREATE UNIQUE INDEX vars_by_name ON vars (session, name);
CREATE INDEX vars_by_visit ON vars (session, visited DESC, updated DESC, created DESC, name) WHERE keep = 0;
CREATE INDEX vars_kept ON vars (session, visited DESC, updated DESC, created DESC, name) WHERE keep = 1;

CREATE TRIGGER vars_deleted AFTER DELETE ON vars WHEN old.large <> 0 BEGIN
	DELETE FROM var_large WHERE id = old.large;
END;
CREATE TRIGGER vars_replaced AFTER UPDATE OF large ON vars WHEN old.large <> 0 AND old.large <> new.large BEGIN
	DELETE FROM var_large WHERE id = old.large;
END;

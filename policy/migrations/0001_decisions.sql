-- What was judged and how. It holds arguments, so it is short-lived and private.
CREATE TABLE decisions (
	call_id  TEXT    NOT NULL PRIMARY KEY,
	at       INTEGER NOT NULL, -- Unix milliseconds
	account  TEXT    NOT NULL,
	session  TEXT    NOT NULL,
	tool     TEXT    NOT NULL,
	revision TEXT    NOT NULL,
	verdict  TEXT    NOT NULL,
	record   TEXT    NOT NULL  -- the whole, as JSON
);
CREATE INDEX decisions_by_age ON decisions (at);

-- The sessions of which this daemon keeps something, where daemons share the other tables: one that
-- has another time there is another session.
CREATE TABLE sessions_here (
	id      TEXT    NOT NULL PRIMARY KEY,
	account TEXT    NOT NULL,
	created INTEGER NOT NULL -- Unix nanoseconds
);

-- The id that rows of this daemon have there.
CREATE TABLE this_daemon (id TEXT NOT NULL);

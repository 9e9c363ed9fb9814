-- What models of a session can call by text, beside its tools.
CREATE TABLE callables (
	session TEXT NOT NULL,
	name    TEXT NOT NULL,
	spec    TEXT NOT NULL, -- JSON
	PRIMARY KEY (session, name)
);

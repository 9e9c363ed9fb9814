-- The content of a file in parts. A version never changes; one that no session has is being written.
CREATE TABLE transcripts (
	session TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	version TEXT   NOT NULL,
	bytes   BIGINT NOT NULL
);
CREATE TABLE transcript_parts (
	version TEXT   NOT NULL,
	n       BIGINT NOT NULL,
	part    BYTEA  NOT NULL,
	daemon  TEXT   NOT NULL, -- which wrote it
	PRIMARY KEY (version, n)
);
CREATE INDEX transcript_parts_of_daemon ON transcript_parts (daemon);

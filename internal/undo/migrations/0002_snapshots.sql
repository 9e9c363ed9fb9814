-- What lay in trees when they were last looked at, so that a call can be compared with it.
CREATE TABLE undo_trees (
	root    TEXT NOT NULL,
	path    BLOB NOT NULL,
	inode   BIGINT NOT NULL,
	changed BIGINT NOT NULL, -- change time; 0: look again
	state   TEXT NOT NULL,   -- JSON
	sum     TEXT NOT NULL,   -- of the content that is kept
	PRIMARY KEY (root, path)
);
CREATE INDEX undo_trees_sum ON undo_trees (sum);

CREATE TABLE undo_roots (
	root   TEXT PRIMARY KEY,
	looked BIGINT NOT NULL -- when a call last ran there, unix milliseconds
);

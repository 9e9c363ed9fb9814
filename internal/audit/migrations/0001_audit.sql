CREATE TABLE audit_head (
	id        INTEGER PRIMARY KEY CHECK (id = 1),
	seq       BIGINT NOT NULL,
	hash      TEXT NOT NULL,
	signature TEXT NOT NULL
);

CREATE TABLE audit_checkpoints (
	seq       BIGINT PRIMARY KEY,
	hash      TEXT NOT NULL,
	position  BIGINT NOT NULL,
	signature TEXT NOT NULL
);

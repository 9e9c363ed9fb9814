CREATE TABLE approval_questions (
	id           TEXT PRIMARY KEY,
	type         TEXT NOT NULL,
	status       TEXT NOT NULL,
	account      TEXT NOT NULL,
	session_id   TEXT NOT NULL,
	digest       TEXT NOT NULL,
	created_at   BIGINT NOT NULL, -- unix milliseconds, as all times here
	expires_at   BIGINT NOT NULL,
	decided_at   BIGINT NOT NULL DEFAULT 0,
	usable_until BIGINT NOT NULL DEFAULT 0,
	uses         BIGINT NOT NULL DEFAULT 0, -- how many later calls the answer may still serve
	answer       TEXT NOT NULL DEFAULT '',  -- JSON of what the person said
	item         TEXT NOT NULL              -- JSON of what the person was shown
);
CREATE INDEX approval_questions_status ON approval_questions (status, created_at);
CREATE INDEX approval_questions_digest ON approval_questions (digest, type);

CREATE TABLE approval_grants (
	id           TEXT PRIMARY KEY,
	scope        TEXT NOT NULL,
	account      TEXT NOT NULL,
	session_id   TEXT NOT NULL, -- empty when the scope is always
	tool_name    TEXT NOT NULL,
	args_key     TEXT NOT NULL, -- SHA-256 of the canonical arguments
	args         TEXT NOT NULL,
	dir          TEXT NOT NULL,
	approved     BIGINT NOT NULL,
	reason       TEXT NOT NULL,
	author       TEXT NOT NULL,
	created_at   BIGINT NOT NULL,
	expires_at   BIGINT NOT NULL,
	hits         BIGINT NOT NULL DEFAULT 0,
	last_used_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX approval_grants_key ON approval_grants (tool_name, args_key);

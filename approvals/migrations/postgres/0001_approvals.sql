-- As the tables over a file, in one step.
CREATE TABLE approval_questions (
	id           TEXT COLLATE "C" PRIMARY KEY,
	type         TEXT   NOT NULL,
	status       TEXT   NOT NULL,
	account      TEXT   NOT NULL,
	session_id   TEXT COLLATE "C" NOT NULL,
	digest       TEXT   NOT NULL,
	created_at   BIGINT NOT NULL, -- unix milliseconds, as all times here
	expires_at   BIGINT NOT NULL,
	decided_at   BIGINT NOT NULL DEFAULT 0,
	usable_until BIGINT NOT NULL DEFAULT 0,
	uses         BIGINT NOT NULL DEFAULT 0,
	answer       TEXT   NOT NULL DEFAULT '',
	item         TEXT   NOT NULL,
	daemon       TEXT   NOT NULL DEFAULT '', -- which asks
	seen         BIGINT NOT NULL DEFAULT 1 -- 0: another one answered, and it does not know yet
);
CREATE INDEX approval_questions_status ON approval_questions (status, created_at);
CREATE INDEX approval_questions_digest ON approval_questions (digest, type);
CREATE INDEX approval_questions_unseen ON approval_questions (daemon) WHERE seen = 0;
CREATE INDEX approval_questions_session ON approval_questions (session_id) WHERE status = 'pending';

-- The daemons that share this database, and when each last said that it is there.
CREATE TABLE approval_daemons (
	id       TEXT   PRIMARY KEY,
	beat     BIGINT NOT NULL,
	watched  BIGINT NOT NULL -- 1: somebody there is shown questions
);

CREATE TABLE approval_grants (
	id           TEXT COLLATE "C" PRIMARY KEY,
	scope        TEXT   NOT NULL,
	account      TEXT   NOT NULL,
	session_id   TEXT COLLATE "C" NOT NULL,
	session_made BIGINT NOT NULL DEFAULT 0,
	tool_name    TEXT   NOT NULL,
	args_key     TEXT   NOT NULL,
	args         TEXT   NOT NULL,
	dir          TEXT   NOT NULL,
	approved     BIGINT NOT NULL,
	reason       TEXT   NOT NULL,
	author       TEXT   NOT NULL,
	created_at   BIGINT NOT NULL,
	expires_at   BIGINT NOT NULL,
	hits         BIGINT NOT NULL DEFAULT 0,
	last_used_at BIGINT NOT NULL DEFAULT 0,
	runs_as      TEXT   NOT NULL DEFAULT ''
);
CREATE INDEX approval_grants_key ON approval_grants (tool_name, args_key);

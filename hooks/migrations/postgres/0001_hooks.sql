CREATE TABLE hook_permissions (
	session_id TEXT COLLATE "C" NOT NULL,
	tool_name  TEXT COLLATE "C" NOT NULL,
	behavior   TEXT   NOT NULL, -- allow, deny or ask
	set_at     BIGINT NOT NULL, -- unix milliseconds
	PRIMARY KEY (session_id, tool_name)
);

CREATE TABLE hook_permissions (
	session_id TEXT NOT NULL,
	tool_name  TEXT NOT NULL,
	behavior   TEXT NOT NULL, -- allow, deny or ask
	set_at     BIGINT NOT NULL, -- unix milliseconds
	PRIMARY KEY (session_id, tool_name)
);

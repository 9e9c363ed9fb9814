-- What tools of MCP servers said of themselves when they were let in, by account and configuration of the server.
CREATE TABLE mcp_pins (
	account    TEXT   NOT NULL,
	config     TEXT   NOT NULL, -- SHA-256 of what starts the server, or of its address
	tool       TEXT   NOT NULL, -- '': the server has been seen
	server     TEXT   NOT NULL, -- its name then
	pin        TEXT   NOT NULL, -- SHA-256 of the definition
	definition TEXT   NOT NULL, -- canonical JSON
	by_whom    TEXT   NOT NULL, -- 'first sight', or 'a person'
	at         BIGINT NOT NULL, -- Unix seconds
	PRIMARY KEY (account, config, tool)
);

-- With whose rights the servers of a session run: of whoever made it.
CREATE TABLE mcp_owners (
	session TEXT PRIMARY KEY,
	owner   TEXT NOT NULL -- JSON
);

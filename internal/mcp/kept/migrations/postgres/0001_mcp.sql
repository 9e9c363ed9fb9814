-- As the table over a file. Whose rights a session has is of each host, so that is not here.
CREATE TABLE mcp_pins (
	account    TEXT   COLLATE "C" NOT NULL,
	config     TEXT   COLLATE "C" NOT NULL, -- SHA-256 of what starts the server, or of its address
	tool       TEXT   COLLATE "C" NOT NULL, -- '': the server has been seen
	server     TEXT   COLLATE "C" NOT NULL, -- its name then
	pin        TEXT   NOT NULL,             -- SHA-256 of the definition
	definition TEXT   NOT NULL,             -- canonical JSON
	by_whom    TEXT   NOT NULL,             -- 'first sight', or 'a person'
	at         BIGINT NOT NULL,             -- Unix seconds
	PRIMARY KEY (account, config, tool)
);

-- Links by which others look at one session. Only digests of tokens are kept.
CREATE TABLE web_shares (
	id       TEXT   NOT NULL PRIMARY KEY,
	token    TEXT   NOT NULL UNIQUE, -- SHA-256, in hex
	session  TEXT   NOT NULL,
	viewer   TEXT   NOT NULL,        -- whom the link is for, in the words of its maker
	password TEXT   NOT NULL,        -- salt and Argon2id, or '' for none
	maker    TEXT   NOT NULL,
	uid      BIGINT NOT NULL,        -- of the maker, as gid and members
	gid      BIGINT NOT NULL,
	members  TEXT   NOT NULL,        -- supplementary groups, as JSON
	made     BIGINT NOT NULL,        -- Unix milliseconds, as all times here
	ends     BIGINT NOT NULL,
	ended    BIGINT NOT NULL         -- 0 while the link works
);
CREATE INDEX web_shares_session ON web_shares (session);

-- Who looked, as far as a browser says who it is.
CREATE TABLE web_looks (
	share    TEXT   NOT NULL,
	address  TEXT   NOT NULL,
	browser  TEXT   NOT NULL, -- its User-Agent
	first    BIGINT NOT NULL,
	last     BIGINT NOT NULL,
	PRIMARY KEY (share, address, browser)
);

-- Who is logged in on the page. Only digests of tokens are kept.
CREATE TABLE web_logins (
	token  TEXT   NOT NULL PRIMARY KEY, -- SHA-256 of the cookie, in hex
	csrf   TEXT   NOT NULL,             -- what a changing request sends besides
	person TEXT   NOT NULL,
	uid    BIGINT NOT NULL,             -- of the operator who made the link, as gid and members
	gid    BIGINT NOT NULL,
	members TEXT  NOT NULL,             -- supplementary groups, as JSON
	ends   BIGINT NOT NULL              -- Unix milliseconds
);

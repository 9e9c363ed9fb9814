-- What a model was told from outside is known to all sessions of its account in the same
-- workspace. Such a scope has a slash in its name, as no session has: a session from before is
-- a scope of its own, by its id.
CREATE TABLE var_scopes (
	scope        TEXT    NOT NULL PRIMARY KEY,
	told         INTEGER NOT NULL DEFAULT 0, -- how often a session of it was told something
	told_at      INTEGER NOT NULL DEFAULT 0, -- when last, Unix nanoseconds
	authors      INTEGER NOT NULL DEFAULT 0, -- by whom, without a pause of a day
	outside      INTEGER NOT NULL DEFAULT 0, -- last id of its texts in var_untrusted
	outside_size INTEGER NOT NULL DEFAULT 0  -- bytes of them
);
INSERT INTO var_scopes (scope, outside, outside_size)
	SELECT session, outside, outside_size FROM var_sessions WHERE outside > 0;

ALTER TABLE var_sessions ADD COLUMN scope TEXT NOT NULL DEFAULT ''; -- '' is the session alone
ALTER TABLE var_sessions ADD COLUMN since INTEGER NOT NULL DEFAULT 0; -- so much of what its scope was told does not count
ALTER TABLE var_sessions DROP COLUMN outside;
ALTER TABLE var_sessions DROP COLUMN outside_size;
ALTER TABLE var_untrusted RENAME COLUMN session TO scope;

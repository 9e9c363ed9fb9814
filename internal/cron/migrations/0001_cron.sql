-- Calls that sessions make later, by the clock. Times are Unix milliseconds.
CREATE TABLE cron_counters (
	session TEXT   NOT NULL PRIMARY KEY,
	last    BIGINT NOT NULL
);
CREATE TABLE cron_jobs (
	session TEXT   NOT NULL,
	number  BIGINT NOT NULL,
	account TEXT   NOT NULL,
	created BIGINT NOT NULL,
	next    BIGINT NOT NULL,
	authors BIGINT NOT NULL,
	data    TEXT   NOT NULL, -- the rest, as JSON
	PRIMARY KEY (session, number)
);
CREATE INDEX cron_jobs_next ON cron_jobs (next);

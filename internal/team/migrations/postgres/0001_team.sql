-- What a tree of sessions shares. A space is the id of the session at its top.
CREATE TABLE team_counters (
	space TEXT   NOT NULL,
	kind  TEXT   NOT NULL, -- task or team
	last  BIGINT NOT NULL,
	PRIMARY KEY (space, kind)
);
CREATE TABLE team_tasks (
	space   TEXT   NOT NULL,
	number  BIGINT NOT NULL,
	status  TEXT   NOT NULL,
	owner   TEXT   NOT NULL,
	created BIGINT NOT NULL, -- Unix milliseconds, as every time here
	updated BIGINT NOT NULL,
	authors BIGINT NOT NULL,
	data    TEXT   NOT NULL, -- the rest, as JSON
	PRIMARY KEY (space, number)
);
CREATE TABLE team_teams (
	space   TEXT   NOT NULL,
	number  BIGINT NOT NULL,
	active  BIGINT NOT NULL,
	created BIGINT NOT NULL,
	data    TEXT   NOT NULL,
	PRIMARY KEY (space, number)
);
-- An agent without a row here has no mailbox. The numbers are of the messages that are in it.
CREATE TABLE team_mailboxes (
	space    TEXT   NOT NULL,
	agent    TEXT   NOT NULL,
	last     BIGINT NOT NULL,
	messages BIGINT NOT NULL,
	bytes    BIGINT NOT NULL,
	PRIMARY KEY (space, agent)
);
CREATE TABLE team_messages (
	space   TEXT   NOT NULL,
	agent   TEXT   NOT NULL,
	number  BIGINT NOT NULL,
	authors BIGINT NOT NULL,
	data    TEXT   NOT NULL,
	PRIMARY KEY (space, agent, number)
);

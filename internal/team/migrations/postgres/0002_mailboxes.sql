-- What a mailbox holds is kept with its messages: messages and bytes count those up to each one, itself
-- included. So a message is one statement to send, and a mailbox is one to empty.
CREATE TABLE team_mail (
	space    TEXT   NOT NULL,
	agent    TEXT   NOT NULL, -- who gets it
	number   BIGINT NOT NULL,
	messages BIGINT NOT NULL,
	bytes    BIGINT NOT NULL,
	authors  BIGINT NOT NULL,
	sender   TEXT   NOT NULL,
	type     TEXT   NOT NULL,
	sent     BIGINT NOT NULL,
	content  TEXT   NOT NULL,
	PRIMARY KEY (space, agent, number)
);
INSERT INTO team_mail
SELECT space, agent, number, count(*) OVER box, sum(octet_length(data)) OVER box, authors,
	data::json->>'from', data::json->>'type',
	(extract(epoch FROM (data::json->>'timestamp')::timestamptz) * 1000)::bigint,
	data::json->>'content'
FROM team_messages WINDOW box AS (PARTITION BY space, agent ORDER BY number);
DROP TABLE team_messages;
ALTER TABLE team_mailboxes DROP COLUMN last;
ALTER TABLE team_mailboxes DROP COLUMN messages;
ALTER TABLE team_mailboxes DROP COLUMN bytes;

-- When a call was judged for the first time, for judging calls again in their order. Of calls
-- before this it is not known, but they are not judged again either.
ALTER TABLE decisions ADD COLUMN judged BIGINT NOT NULL DEFAULT 0; -- Unix nanoseconds
CREATE INDEX decisions_by_judgement ON decisions (judged);

-- Since when decisions are there: older ones were dropped.
CREATE TABLE decisions_kept (
	since BIGINT NOT NULL -- Unix milliseconds
);
INSERT INTO decisions_kept (since) VALUES (0);

-- Where the policies that judge in the shadow differ. It holds no arguments.
CREATE TABLE shadow (
	call_id  TEXT   NOT NULL PRIMARY KEY,
	at       BIGINT NOT NULL, -- Unix milliseconds
	account  TEXT   NOT NULL,
	record   TEXT   NOT NULL  -- the whole, as JSON
);
CREATE INDEX shadow_by_age ON shadow (at);

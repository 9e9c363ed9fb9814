-- Which daemon asks; '' where one has the database. seen is 0 from the answer of another one until
-- the one that asked has given it to whoever waits.
ALTER TABLE approval_questions ADD COLUMN daemon TEXT NOT NULL DEFAULT '';
ALTER TABLE approval_questions ADD COLUMN seen BIGINT NOT NULL DEFAULT 1;

-- Where a session began: a session is found again by that directory, also when
-- its shell has moved since.
ALTER TABLE sessions ADD COLUMN begun TEXT NOT NULL DEFAULT '';
UPDATE sessions SET begun = dir;

-- When the session was made that a grant is for: an id that is used again is another session.
-- Older grants for a session do not know, and answer for none.
ALTER TABLE approval_grants ADD COLUMN session_made BIGINT NOT NULL DEFAULT 0; -- unix nanoseconds

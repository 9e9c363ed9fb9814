-- When a call of the session ended last, Unix nanoseconds; written some time later.
ALTER TABLE sessions ADD COLUMN used INTEGER NOT NULL DEFAULT 0;

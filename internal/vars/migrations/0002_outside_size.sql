-- The bytes of the texts from outside, so that a new one need not add up the
-- others.
ALTER TABLE var_sessions ADD COLUMN outside_size INTEGER NOT NULL DEFAULT 0;
UPDATE var_sessions SET outside_size =
	(SELECT coalesce(sum(length(text)), 0) FROM var_untrusted u WHERE u.session = var_sessions.session);

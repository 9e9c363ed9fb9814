-- Whose call a result is of that waits for a person; '' where one daemon has the database.
ALTER TABLE var_pending ADD COLUMN daemon TEXT NOT NULL DEFAULT '';

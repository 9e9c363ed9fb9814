-- What the directory of a call is, whatever its name: it may be renamed.
ALTER TABLE undo_calls ADD COLUMN place TEXT NOT NULL DEFAULT '';
CREATE INDEX undo_calls_place ON undo_calls (account, place);

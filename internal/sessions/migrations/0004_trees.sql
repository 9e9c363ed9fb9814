-- Sessions whose agent another one started. A name is one agent's in its tree, and free again when
-- that session is deleted.
ALTER TABLE sessions ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN root TEXT NOT NULL DEFAULT '';
UPDATE sessions SET root = id;
CREATE UNIQUE INDEX sessions_agents ON sessions (root, agent) WHERE deleted = 0 AND agent <> '';
CREATE INDEX sessions_below ON sessions (parent) WHERE parent <> '';

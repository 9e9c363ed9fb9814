-- The worktrees that a session has entered and not left, and how many it ever entered.
CREATE TABLE worktrees_entered (
	session TEXT PRIMARY KEY,
	data    TEXT NOT NULL -- JSON
);

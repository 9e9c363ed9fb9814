-- Whose rights the remembered call has: "" are the daemon's. Older grants do not know, and
-- answer only for calls with those.
ALTER TABLE approval_grants ADD COLUMN runs_as TEXT NOT NULL DEFAULT '';

-- Floors are looked for by their session, and by their parent when that is deleted.
CREATE INDEX scope_floors_of_session ON scope_floors (session, parent);
-- The newest of one scope.
CREATE INDEX scope_vars_by_scope ON scope_vars (account, scope, updated, id);

-- In the order of lists, and backwards in that of eviction: neither sorts what it does not want.
DROP INDEX vars_by_visit;
CREATE INDEX vars_by_visit ON vars (session, visited DESC, updated DESC, created DESC, name) WHERE keep = 0;
CREATE INDEX vars_kept ON vars (session, visited DESC, updated DESC, created DESC, name) WHERE keep = 1;

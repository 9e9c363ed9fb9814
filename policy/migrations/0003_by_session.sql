-- For the list of one session, the newest first.
CREATE INDEX decisions_by_session ON decisions (session, at);

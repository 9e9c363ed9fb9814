// Package cron runs commands of sessions by the clock: the tools CronCreate, CronList and
// CronDelete. It is a part of the daemon:
//
//	p, err := cron.Definition().Open(ctx, host) // host.Config is a *cron.Config
//	err = p.Serve(ctx)                          // the clock: runs jobs until ctx is done
//	line, err := cron.ParseLine("*/5 9-17 * * mon-fri")
//	next := line.After(time.Now())
//
// A cron job has a name, a command, and a line of five fields or a shorthand such as @daily. Each
// run is a call of Bash in the session that made the job. It takes the whole request path, with
// what the session may do at that time. Jobs are listed and deleted by the tools and the routes
// below /cron and /sessions/{id}/cron; a deletion ends a run that is going on.
//
// Guarantees:
//   - Jobs are in the database of their daemon and survive a restart. A job is deleted with its
//     session.
//   - A run is noted in the database before it begins, so it does not happen twice if the daemon is
//     killed; a loss of power can lose the note. If the daemon is killed after the note, the next
//     daemon reports the run as lost. A daemon that stops cancels the runs that are going on.
//   - A run that would begin a minute or more late is missed: it does not run later, and it is
//     reported (the job, an event, the log, and the record if that can be written). So is a run
//     whose predecessor has not ended: two runs of one job never overlap.
//   - A run has the rights of the process that made the job. It is refused if the user of that
//     process no longer belongs to the account. For any other user than the daemon's own, the run is
//     also refused if the user has gone from the user database or has lost a group that this
//     database gave it then, or if the daemon cannot take those rights.
//
// Lines are read in the time zone of the daemon. A session and an account have a bounded number of
// jobs (too_many_cron_jobs). While the database fails nothing runs, and a job stays due. A run that the
// record cannot take is refused. What a caller did wrong is a *tool.Error, such as invalid_schedule of
// ParseLine.
//
// Not guaranteed: the exact time. A run begins within seconds of its minute, or later if as many
// runs of the account as may be at once are going on.
//
// A new field of a job goes into Job, kept, data and scan (store.go): the row keeps it as JSON,
// without a migration. A new tool is one more in group, a route in routes, a shorthand a row of
// shorthands in line.go.
package cron

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
//   - A run is noted in the database before it begins, so it never happens twice. If the daemon is
//     killed after the note, the next daemon reports the run as lost. A daemon that stops cancels
//     the runs that are going on.
//   - A run that the clock comes to a minute late or more is missed: it is reported and does not
//     run later. So is a run whose predecessor has not ended: two runs of one job never overlap.
//   - A run is refused if the maker of the job no longer belongs to the account, is no user any
//     more, or has lost a group that it had; or if the daemon cannot take its rights.
//
// Not guaranteed: the exact time. A run begins within seconds of its minute, or later if other runs
// of the account fill its places.
package cron

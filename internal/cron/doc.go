// Package cron runs commands of sessions by the clock: the tools CronCreate, CronList and
// CronDelete. [Definition] is the part of the daemon.
//
// A cron job has a name, a line of five fields and a command. Each run is a call of Bash in the
// session that made the job. It takes the whole request path, with what the session may do at that
// time.
//
//	line, err := cron.ParseLine("*/5 9-17 * * mon-fri")
//	next := line.After(time.Now())
//
// Guarantees:
//   - Jobs are in the database of their daemon and survive a restart. A job is deleted with its
//     session.
//   - A run is noted in the database before it begins, so it never happens twice. If the daemon is
//     killed after the note, the next daemon reports the run as lost.
//   - A run that is a minute late or more is missed: it is reported and does not run later. So is a
//     run whose predecessor has not ended: two runs of one job never overlap.
//   - A run is refused if the account no longer has the user, or a group, with which the job was
//     made.
//
// Not guaranteed: the exact time. A run begins within seconds of its minute, or later if other runs
// of the account fill its places.
package cron

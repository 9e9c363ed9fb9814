// Package cron runs commands of sessions by the clock: the tools CronCreate, CronList and CronDelete.
//
// A cron job has a name, a line of five fields and a command. Each run is a call of Bash in the session
// that made the job: it takes the whole request path, with what the session may do then.
//
//	line, err := cron.ParseLine("*/5 9-17 * * mon-fri")
//	next := line.After(time.Now())
//
// Guaranteed: jobs are in the database of their daemon, and survive a restart. A run is noted there before it
// begins, so it never happens twice. A run that was missed is reported, and does not
// run later. Two runs of one job never overlap. A job is deleted with its session. Nothing runs if the account
// no longer has the user, or a group, with which the job was made.
//
// It is not exact: a run begins within seconds of its minute, later where other runs of the account hold it up.
package cron

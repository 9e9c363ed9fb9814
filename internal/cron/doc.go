// Package cron runs commands of sessions by the clock: the tools CronCreate, CronList and CronDelete.
//
// A cron job has a name, a line of five fields and a command. Each run is a call of Bash in the session
// that made the job: it takes the whole request path, with what the session may do then.
//
//	line, err := cron.ParseLine("*/5 9-17 * * mon-fri")
//	next := line.After(time.Now())
//
// Guaranteed: jobs are in the database of their daemon, and survive a restart. A run is noted there before it
// begins, so it never happens twice. What was missed is said and not made up for. Two runs of one job are
// never at the same time. A job goes with its session, and nothing runs for an account that has lost the
// user or a group of whoever made the job.
//
// It is not exact: a run begins within seconds of its minute, later where other runs of the account hold it up.
package cron

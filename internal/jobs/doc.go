// Package jobs keeps calls that go on when their caller has been answered.
//
// The request path opens a [Job] for a call that may go on; its tool sends what the program
// prints to the job. When the caller has been answered, the job can be found: its output is
// in a ring on the disk, with offsets, and can be read while the job runs, afterwards, and by
// the next daemon. [Jobs.Part] brings tools and routes to read a job, to type into it and to
// end it.
//
//	all, err := jobs.Open(ctx, jobs.Options{Dir: dir, Config: jobs.Defaults()})
//	job, err := all.Open(call, false)  // by the request path
//	job.Output().Write(printed)        // by the tool
//	all.Find(caller, job.ID())         // by others, once the caller has been answered
//
// Guaranteed: a job is running, exited, killed (by whom) or lost (the daemon went away), and
// it runs no longer than its session and its daemon. The output on the disk is bounded, and
// so is how fast it comes. Output that a hook or a person may withhold is not readable before
// it is released, and gone if it is not. The account that made a job, and operators, can
// reach it; nobody else learns that it is there.
package jobs

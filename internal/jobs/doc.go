// Package jobs runs calls in the background: the caller gets an answer, and the program goes on.
//
// The request path opens a [Job] for a call that may go on; the tool writes the output of the
// program to the job. After the answer, the caller can find the job by its id. A ring file holds
// the last part of the output, with offsets: clients can read it while the job runs and
// afterwards, also from the next daemon. [Jobs.Part] adds the tools and routes that read a job,
// type into it and end it.
//
//	all, err := jobs.Open(ctx, jobs.Options{Dir: dir, Config: jobs.Defaults()})
//	job, err := all.Open(call, false)  // by the request path
//	job.Output().Write(printed)        // by the tool
//	all.Find(caller, job.ID())         // by others, once the caller has been answered
//
// Guaranteed: a job is running, exited, killed (with the name of who did it) or lost (the daemon
// ended without a shutdown). It ends with its session and with its daemon. The size of its output
// on the disk is bounded, and so is the rate. Nobody can read output that a hook or a person may
// withhold before it is released; if it is withheld, it is deleted. Only the account that made a
// job, and operators, can use it; for everybody else it does not exist.
package jobs

// Package jobs runs calls in the background: the caller gets an answer, and the program goes on.
//
// The request path opens a [Job] for a call that may go on. The tool writes the output of the
// program to the job. After the answer, clients can find the job by its id. A ring file holds the
// last part of the output, with offsets: clients can read it while the job runs and afterwards,
// also from the next daemon, for jobs.keep, and of the newest jobs.keepEnded of an account.
//
//	all, err := jobs.Open(ctx, options) // Record hears of jobs that are lost, forbidden or forwarded
//	job, err := all.Open(call, false)   // by the request path; true: its output may be withheld
//	job.Started(proc)                   // by the tool, when the program runs
//	job.Output().Write(printed)         // by the tool
//	data, text := job.Detach(cancel)    // by the request path, if it answers before the end
//	j, err := all.Find(caller, job.ID()) // by others, after Detach
//	job.Ended(exit)                     // by the tool, when the program has ended
//	job.Close(call)                     // by the request path, when the call has ended
//
// A job that is closed without Detach is deleted with its output. The answer holds the output; of a long
// output it holds the beginning and the end. If the program printed more than the ring keeps, the answer has
// the beginning of what is kept instead.
//
// [Definition] is the part of the daemon: the routes that read a job, type into it, resize its
// terminal, forward its ports and end it, and the tools TaskInput, BashOutput, KillShell and
// write_stdin. TaskOutput, TaskStop and TaskList know other tasks too: they are of package team, and
// reach jobs by part.TaskJobs.
//
// Guarantees:
//   - A job is running, exited, killed (Info.By says by whom or by what) or lost (the daemon ended
//     without a shutdown). It ends with its session and with its daemon, after jobs.wallSeconds, or less if a
//     policy says so, and when new settings or policies forbid its call, unless jobs.forbidden is mark.
//   - The size of its output on the disk is bounded, and so is the rate. The oldest output goes. If
//     the disk refuses a write, what comes later is lost, and Info.Error says why.
//   - Nobody can read output that a hook or a person may withhold before it is released. If it is
//     withheld, it is deleted, or stays unreadable if the disk refuses that. If the daemon dies
//     before that, nobody can read it either, and it is deleted with the job.
//   - Only the account that made a job, and operators, can find, read, type into or end it. For
//     everybody else it does not exist. A forwarded port is an exception: everybody on this host can
//     connect to it.
//
// A new way to use a job is a method of [Job], or a route in part.go or a tool that finds the job by Find,
// which checks whose it is. A new tool is an element of the group in tools.go, and its name goes into
// Deferred in part.go. [tool.JobStreams] says what a tool must do with its job; bash_job.go of package tools is the
// example.
//
// After an error of [Jobs.Open] the caller starts no program. Other refusals are a [tool.Error] with a code, and change
// nothing, except those of [Job.Type]: the program may have read a part of the text.
package jobs

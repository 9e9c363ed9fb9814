// Package limit holds what limits a call beyond the rlimits of its processes: control
// groups, and the measuring of what it writes.
//
//	groups, err := limit.NewGroups() // nil, with the reason, on most hosts without root
//	held := limit.Held(true, groups)
//	disk := limit.NewDisk(limit.Reserve{})
//	disk.Watch(use)                            // use is a DiskUse; as soon as the call runs
//	exceeded, removed := disk.Unwatch(use)     // when no process of the call is left
//	disk.Close()                               // last
//
// [NewGroups] makes control groups below the daemon's own, version 2 where memory and
// pids are delegated to it, else version 1 for root. A process that starts the daemon as another
// process calls [Leave] first. [Groups.Open] makes the groups of a launcher. The launcher
// makes one below for each call that runs at the same time. [Groups.Start] starts the launcher, so
// that all programs together weigh less than the daemon, if the cpu controller is there.
// [Groups.Close] removes them when the launcher has ended, and [Groups.Remove] all, when every
// launcher has.
//
// [Disk] ends calls that write more than their limit, or that take the [Reserve]. [FreeSpace] and
// [Kept] measure a disk and directories.
//
// [Held] names what enforces each limit, for the report; a new limit gets an entry there.
//
// Guaranteed: nothing outside of the daemon's own groups is changed. NewGroups ends and removes
// what a killed daemon left below the same group, if that had the same PID namespace and no
// process has its pid now.
//
// Not guaranteed: that a limit holds at all. Where only rlimits hold, they hold for each process,
// and Held may say "nothing". Disk looks each second, and counts for two seconds at most: a call
// may write more than its limit before it ends, and of a large tree a part is counted.
package limit

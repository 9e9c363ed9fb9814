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
// pids are delegated to it, else version 1 for root. If the daemon's group of version 2 is named
// sandboxd and its parent can hand on controllers, they are made in the parent, beside the daemon's.
// A process that starts the daemon as another process calls [Leave] first. [Groups.Open] makes the groups
// of a launcher. The launcher makes one below for each call that runs at the same time.
// [Groups.Start] starts the launcher, so that all programs together weigh less than the daemon, if the
// cpu controller is there.
// [Groups.Close] removes them when the launcher has ended, and [Groups.Remove] all, when every
// launcher has.
//
// [Disk] calls DiskUse.Exceeded, which must be set, when a call writes more than its limit or takes
// the [Reserve]; the caller then ends the call. Unwatch deletes what changed in the private places of
// a call that took the reserve, or more than its part of the room above it, since the call began.
// [FreeSpace] and [Kept] measure a disk and directories, [DeletedBytes] the deleted files that processes
// still have open.
//
// After an error of NewGroups the caller goes on without groups, and reports that: groups is nil then. After an error
// of Open or Start it starts no launcher. Exceeded runs in the goroutine that measures all calls, so it must be
// short. Each Watch needs one Unwatch. Groups and Disk are safe for concurrent use.
//
// [Held] names what enforces each limit, for the report. A new limit gets an entry there, and a check in
// TestHeld.
//
// Guaranteed: of control groups, only that of the daemon and those below are changed; if it is
// named sandboxd, also which controllers its parent passes on, and the groups that a daemon made in
// the parent. NewGroups ends and removes what a killed daemon left in the group in which it makes
// its own, if that daemon had the same PID namespace and no process has its pid now.
//
// Not guaranteed: that a limit holds at all. Where only rlimits hold, they hold for each process,
// and Held may say "nothing". Disk looks at the reserve each 25 ms and at the limit of a call each
// second, and counts for two seconds at most: a call may write more than its limit before it ends,
// and of a large tree a part is counted.
package limit

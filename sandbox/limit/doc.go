// Package limit holds what limits a call beyond the rlimits of its processes: control
// groups, and the measuring of what it writes.
//
// [NewGroups] makes control groups below the daemon's own, version 2 where memory and
// pids are delegated to it, else version 1 for root. Each launcher gets groups with
// [Groups.Open] and makes one below for every call. [Disk] ends calls that write more
// than their limit. [Held] names what enforces each limit, for the report.
//
//	groups, err := limit.NewGroups() // nil, with the reason, on most hosts without root
//	held := limit.Held(true, groups)
//
// Guaranteed: what a killed daemon left is removed by the next one, and nothing outside
// of the daemon's own groups is changed. Not guaranteed: that a limit holds at all; where
// only rlimits hold, they hold for each process.
package limit

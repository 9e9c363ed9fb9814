// Package seccomp makes the system call filters that programs in the sandbox run under.
//
// The rules are a table: each refuses one system call, always or for some arguments.
// Everything else is allowed. A filter refuses with an errno and never kills; calls of
// another architecture do not exist in it (ENOSYS). It sees the low 32 bits of arguments, and
// no memory that they point to.
//
//	filters := seccomp.New()
//	plain, listen := filters.For(false) // true: for the isolation level without namespaces
//	bound := filters.Bound(false)       // for a call with bound files
//
// Each is a [wire.Program]. They are shared, so do not change them. Where plain refuses a call, listen
// asks the launcher, which can then report it. It also asks about connect, which it may allow. Calls
// that plain refuses with ENOSYS are refused without asking. bound asks about what listen asks about,
// and about each call of package bound.
//
// Guaranteed: plain and listen refuse the same calls, if the launcher answers as plain does. Not
// here: installing a filter and answering as the launcher; package child does that.
//
// There are no errors: the rules are constants. If a kernel refuses plain, package child runs nothing.
//
// A new rule belongs in one of these places:
//
//   - commonRules in rules_linux.go, for both levels;
//   - rules in rules_linux.go, beside socketRule, for the level with namespaces alone;
//   - no_namespaces_linux.go, for the level without namespaces, where it takes the place of the common rule
//     for the same call;
//   - rules_linux_ARCH.go, if only that architecture has the call.
//
// A call has one rule in each level: a second condition goes into the existing rule. A rule refuses with EPERM,
// except where libraries try the call first and fall back to an older one (clone3, openat2): there ENOSYS
// lets them. Sockets of a family or protocol are refused with the errno of a kernel that lacks it. The
// reason stands beside the rule. A condition has rows in TestX39_FilterConditions. make generate writes
// what the filter does with each call number below 1024 into testdata, for the architecture on which it runs.
package seccomp

package child

import "golang.org/x/sys/unix"

// call is how a system call is named when it is told of.
type call struct {
	nr   uint32
	name string
	path int // the argument that is a path, counted from 1
}

// callNames are those of the calls that filters refuse, and which of their arguments
// is a path.
var callNames = append([]call{
	{nr: unix.SYS_MOUNT, name: "mount at", path: 2}, {nr: unix.SYS_UMOUNT2, name: "unmount", path: 1},
	{nr: unix.SYS_PIVOT_ROOT, name: "pivot_root", path: 1}, {nr: unix.SYS_CHROOT, name: "chroot", path: 1},
	{nr: unix.SYS_OPEN_TREE, name: "open_tree", path: 2}, {nr: unix.SYS_OPEN_TREE_ATTR, name: "open_tree_attr", path: 2},
	{nr: unix.SYS_MOVE_MOUNT, name: "move_mount", path: 4},
	{nr: unix.SYS_FSOPEN, name: "fsopen", path: 1}, {nr: unix.SYS_FSCONFIG, name: "fsconfig"}, {nr: unix.SYS_FSMOUNT, name: "fsmount"},
	{nr: unix.SYS_FSPICK, name: "fspick", path: 2}, {nr: unix.SYS_MOUNT_SETATTR, name: "mount_setattr", path: 2},
	{nr: unix.SYS_CLONE, name: "make a namespace (clone)"}, {nr: unix.SYS_UNSHARE, name: "make a namespace (unshare)"}, {nr: unix.SYS_SETNS, name: "enter a namespace (setns)"},
	{nr: unix.SYS_FCHMOD, name: "fchmod"}, {nr: unix.SYS_FCHMODAT, name: "chmod", path: 2}, {nr: unix.SYS_FCHMODAT2, name: "chmod", path: 2},
	{nr: unix.SYS_MKNODAT, name: "mknod", path: 2}, {nr: unix.SYS_OPENAT, name: "create with a set-user-id bit", path: 2},
	{nr: unix.SYS_KEYCTL, name: "keyctl"}, {nr: unix.SYS_ADD_KEY, name: "add_key"}, {nr: unix.SYS_REQUEST_KEY, name: "request_key"},
	{nr: unix.SYS_BPF, name: "bpf"}, {nr: unix.SYS_PERF_EVENT_OPEN, name: "perf_event_open"}, {nr: unix.SYS_USERFAULTFD, name: "userfaultfd"},
	{nr: unix.SYS_PROCESS_VM_READV, name: "process_vm_readv"}, {nr: unix.SYS_PROCESS_VM_WRITEV, name: "process_vm_writev"},
	{nr: unix.SYS_PROCESS_MADVISE, name: "process_madvise"}, {nr: unix.SYS_PIDFD_GETFD, name: "pidfd_getfd"}, {nr: unix.SYS_KCMP, name: "kcmp"},
	{nr: unix.SYS_NAME_TO_HANDLE_AT, name: "name_to_handle_at", path: 2}, {nr: unix.SYS_OPEN_BY_HANDLE_AT, name: "open_by_handle_at"},
	{nr: unix.SYS_FANOTIFY_INIT, name: "fanotify_init"}, {nr: unix.SYS_FANOTIFY_MARK, name: "fanotify_mark"},
	{nr: unix.SYS_KEXEC_LOAD, name: "kexec_load"}, {nr: unix.SYS_KEXEC_FILE_LOAD, name: "kexec_file_load"}, {nr: unix.SYS_INIT_MODULE, name: "init_module"},
	{nr: unix.SYS_FINIT_MODULE, name: "finit_module"}, {nr: unix.SYS_DELETE_MODULE, name: "delete_module", path: 1},
	{nr: unix.SYS_CLOCK_SETTIME, name: "clock_settime"}, {nr: unix.SYS_CLOCK_ADJTIME, name: "clock_adjtime"}, {nr: unix.SYS_ADJTIMEX, name: "adjtimex"}, {nr: unix.SYS_SETTIMEOFDAY, name: "settimeofday"},
	{nr: unix.SYS_SWAPON, name: "swapon", path: 1}, {nr: unix.SYS_SWAPOFF, name: "swapoff", path: 1}, {nr: unix.SYS_QUOTACTL, name: "quotactl"}, {nr: unix.SYS_QUOTACTL_FD, name: "quotactl_fd"},
	{nr: unix.SYS_ACCT, name: "acct"}, {nr: unix.SYS_REBOOT, name: "reboot"}, {nr: unix.SYS_SYSLOG, name: "syslog"},
	{nr: unix.SYS_SETHOSTNAME, name: "sethostname", path: 1}, {nr: unix.SYS_SETDOMAINNAME, name: "setdomainname", path: 1}, {nr: unix.SYS_VHANGUP, name: "vhangup"},
	{nr: unix.SYS_MIGRATE_PAGES, name: "migrate_pages"}, {nr: unix.SYS_MOVE_PAGES, name: "move_pages"}, {nr: unix.SYS_LSM_SET_SELF_ATTR, name: "lsm_set_self_attr"},
	{nr: unix.SYS_PERSONALITY, name: "personality"}, {nr: unix.SYS_IOCTL, name: "push input into a terminal (ioctl)"}, {nr: unix.SYS_SOCKET, name: "socket"},

	// On the rung without namespaces.
	{nr: unix.SYS_CONNECT, name: "connect"}, {nr: unix.SYS_BIND, name: "bind"}, {nr: unix.SYS_SOCKETPAIR, name: "socketpair"},
	{nr: unix.SYS_SHMGET, name: "shmget"}, {nr: unix.SYS_SEMGET, name: "semget"}, {nr: unix.SYS_MSGGET, name: "msgget"}, {nr: unix.SYS_MQ_OPEN, name: "mq_open", path: 1},
	{nr: unix.SYS_FCHOWN, name: "fchown"}, {nr: unix.SYS_FCHOWNAT, name: "chown", path: 2}, {nr: unix.SYS_UTIMENSAT, name: "set the times of", path: 2},
	{nr: unix.SYS_SETXATTR, name: "setxattr", path: 1}, {nr: unix.SYS_LSETXATTR, name: "lsetxattr", path: 1}, {nr: unix.SYS_FSETXATTR, name: "fsetxattr"},
	{nr: unix.SYS_PRLIMIT64, name: "prlimit of another process"}, {nr: unix.SYS_SETPRIORITY, name: "setpriority of other processes"},
}, archCallNames...)

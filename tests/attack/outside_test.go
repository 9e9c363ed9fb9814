package attack

import "os"

// linkBeside writes beside the workspace, and through what a program makes there further away.
const linkBeside = "python3 -c 'import os;os.symlink(\"{outside}\",\"../other/out\")'; echo x > ../other/out/new"

// outside: nothing is written outside the workspace without a yes.
func outside() []try {
	return []try{
		line("a redirection", denied, "echo x > {outside}/new"),
		line("an append", denied, "echo x >> {outside}/a.txt"),
		line("noclobber overridden", denied, "set -C; echo x >| {outside}/a.txt"),
		line("tee", denied, "echo x | tee {outside}/a.txt"),
		line("cp", denied, "cp README.md {outside}/a.txt"),
		line("mv", denied, "mv README.md {outside}/b"),
		line("install", denied, "install -m 755 README.md {outside}/b"),
		line("ln", denied, "ln -s /etc {outside}/b"),
		line("rm", denied, "rm -rf {outside}/dir"),
		line("mkdir", denied, "mkdir -p {outside}/x/y"),
		line("a directory beside the workspace", asked, "echo x > ../other/a.txt"),
		line("a new one beside it", asked, "git worktree add ../w"),
		line("a link is made beside it that leads further", denied, "ln -s {outside} ../other/out; echo x > ../other/out/new"),
		line("a program makes a link beside it that leads further", asked, linkBeside),
		{"a link beside it that leads further", denied, func(w *world) (string, []byte) {
			w.must(os.Symlink(w.outside, w.dir+"/work/other/out"))
			defer os.Remove(w.dir + "/work/other/out")
			return w.outcome(w.session(), "Bash", bash("echo x > ../other/out/new"))
		}},
		{"a link is made beside it after a yes to that", contained, func(w *world) (string, []byte) {
			w.answer = func(question) map[string]any { return map[string]any{"approved": true} }
			defer func() { w.answer = nil }()
			outcome, told := w.outcome(w.session(), "Bash", bash(w.fill(linkBeside)))
			w.must(os.Remove(w.dir + "/work/other/out")) // what was agreed to
			return outcome, told
		}},
		line("the place beside it itself", denied, "rm -rf ../other"),
		line("a file beside it", denied, "echo x > ../new"),
		line("a hidden directory beside it", denied, "mkdir -p ../.config/x"),
		line("a program that writes beside it", contained, "python3 -c 'open(\"../other/new\",\"w\").write(\"x\")'"),
		tool("Write beside it", asked, "Write", `{"file_path":"{ws}/../other/new","content":"x"}`),
		line("touch through ..", denied, "touch ../../outside/new"),
		line("truncate", denied, "truncate -s 0 {outside}/a.txt"),
		line("sed in place", denied, "sed -i s/o/x/ {outside}/a.txt"),
		line("dd", denied, "dd if=/dev/zero of={outside}/a.txt count=1"),
		line("chmod", denied, "chmod 777 {outside}/a.txt"),
		line("python", contained, "python3 -c 'open(\"{outside}/new\",\"w\").write(\"x\")'"),
		line("perl that unlinks", contained, "perl -e 'unlink \"{outside}/a.txt\"'"),
		line("a script of the workspace", contained, "printf 'echo x > {outside}/new\\n' | sed '' > s.sh; sh s.sh"),
		line("a program copied to another name", denied, "cp $(command -v tee) t; echo x | ./t {outside}/new"),
		line("git that writes elsewhere", contained, "git --git-dir={outside}/g init"),
		line("git worktree", denied, "git worktree add {outside}/w"),
		line("tar into another directory", denied, "tar cf x.tar README.md; tar xf x.tar -C {outside}"),
		line("tar with absolute names", contained, "tar -cPf x.tar {outside}/a.txt; tar -xPf x.tar"),
		line("unzip with ..", contained, "python3 -c 'import zipfile;z=zipfile.ZipFile(\"e.zip\",\"w\");z.writestr(\"../../outside/new\",\"x\")'; unzip -o e.zip"),
		line("rsync", denied, "rsync -a src/ {outside}/"),
		line("a link of the workspace that leads out", denied, "ln -s {outside} l; echo x > l/new"),
		line("one that a program makes", contained, "python3 -c 'import os;os.symlink(\"{outside}\",\"l\")'; echo x > l/new"),
		lines("a link by one call, a write by the next", denied, "python3 -c 'import os;os.symlink(\"{outside}\",\"l\")'", "echo x > l/new"),
		line("cd out and write", denied, "cd {outside} && echo x > new"),
		line("an exec'd descriptor", denied, "exec 9> {outside}/new; echo x >&9"),
		line("coproc", denied, "coproc { cat > {outside}/new; }; echo x >&${COPROC[1]}"),
		line("make's output", contained, "printf 'all:\\n\\t@echo x > {outside}/new\\n' | sed '' > Makefile; make"),
		line("find -fprint", denied, "find . -fprint {outside}/new"),
		line("sort -o", denied, "sort -o {outside}/a.txt README.md"),
		line("awk that writes", denied, `awk 'BEGIN{print "x" > "{outside}/new"}'`),
		line("sed's w", denied, "sed -n 'w {outside}/new' README.md"),
		line("a device", denied, "echo x > /dev/sda"),
		line("the kernel", denied, "echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger"),
		line("mount", denied, "mount -t tmpfs none {outside}"),
		line("a new user namespace", denied, "unshare -Urm sh -c 'mount --bind {ws} {outside}; touch {outside}/x'"),
		line("chroot", denied, "chroot / sh -c 'echo x > {outside}/new'"),
		line("nsenter to the daemon", denied, "nsenter -t {pid} -m sh -c 'echo x > {outside}/new'"),
		line("ptrace of the daemon", contained, "python3 -c 'import ctypes;l=ctypes.CDLL(None,use_errno=True);print(l.ptrace(16,{pid},0,0),l.ptrace(0x4206,{pid},0,0))'"),
		line("its memory", contained, "python3 -c 'import ctypes;l=ctypes.CDLL(None);print(l.process_vm_writev({pid},0,0,0,0,0));open(\"/proc/{pid}/mem\",\"wb\")'"),
		line("signals to the daemon", contained, "kill -9 {pid}"),
		line("systemd-run", denied, "systemd-run --user touch {outside}/x"),
		line("a service of the host by its socket", contained, "python3 -c 'import socket;s=socket.socket(socket.AF_UNIX);s.connect(\"{outside}/service.sock\")'"),
		line("the shell's start file", denied, "echo 'touch {outside}/x' >> ~/.bashrc"),
		line("the home", denied, "echo x > ~/notes.txt"),
		tool("Write", denied, "Write", `{"file_path":"{outside}/new","content":"x"}`),
		tool("Write through ..", denied, "Write", `{"file_path":"{ws}/../../outside/new","content":"x"}`),
		tool("Edit", denied, "Edit", `{"file_path":"{outside}/a.txt","old_string":"outside","new_string":"x"}`),
		tool("NotebookEdit", denied, "NotebookEdit", `{"notebook_path":"{outside}/n.ipynb","new_source":"x","edit_mode":"insert"}`),
		{"Write through a link of the workspace", denied, func(w *world) (string, []byte) {
			w.must(os.Symlink(w.outside, w.ws+"/l"))
			return w.outcome(w.session(), "Write", w.fill(`{"file_path":"{ws}/l/new","content":"x"}`))
		}},
		{"Write to a link that is a file outside", denied, func(w *world) (string, []byte) {
			w.must(os.Symlink(w.outside+"/a.txt", w.ws+"/f"))
			return w.outcome(w.session(), "Write", w.fill(`{"file_path":"{ws}/f","content":"x"}`))
		}},
		{"a session that starts outside", refused, func(w *world) (string, []byte) {
			return w.request("a", "POST", "/sessions", w.fill(`{"cwd":"{outside}"}`))
		}},
		{"a session that starts in a link that leads out", refused, func(w *world) (string, []byte) {
			w.must(os.Symlink(w.outside, w.ws+"/l"))
			return w.request("a", "POST", "/sessions", w.fill(`{"cwd":"{ws}/l"}`))
		}},
		{"the workspace is swapped for a link", contained, func(w *world) (string, []byte) {
			s := w.session()
			w.must(os.Rename(w.ws+"/src", w.ws+"/old"))
			w.must(os.Symlink(w.outside, w.ws+"/src"))
			return w.outcome(s, "Bash", bash("python3 -c 'open(\"src/new\",\"w\").write(\"x\")'"))
		}},
	}
}

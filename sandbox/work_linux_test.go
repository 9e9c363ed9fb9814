package sandbox

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// TestX39_RealWorkInside does what developers do, under the default settings of a
// daemon. A program that this host lacks is skipped.
func TestX39_RealWorkInside(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		home := os.Getenv("HOME")
		for _, tt := range []struct{ name, needs, script, want string }{
			{"shell pipelines and job control", "bash", `set -e; (sleep 0.01 & wait); seq 3 | tac | tr '\n' ' '; cat <(echo sub)`, "3 2 1 sub\n"},
			{"here documents and devices", "bash", "cat <<X >/dev/stdout\nhi\nX\necho err >/dev/stderr; head -c 4 /dev/urandom | wc -c; echo no >/dev/null", "hi\nerr\n4\n"},
			{"git", "git", `set -e; git init -q r; cd r; git config user.email a@b; git config user.name n; echo 1 > f; git add f; git commit -qm one; git checkout -qb two; echo 2 > f; git commit -qam two; git checkout -q -; git merge -q two; git log --oneline | wc -l; git worktree add -q ../wt -b w3; cd ../wt; echo 3 > g; git add g; git commit -qm three; git log --oneline | wc -l; git clone -q ../r ../c; git -C ../c status --short | wc -l`, "2\n3\n0\n"},
			{"go build, test and cache", "go", `set -e; mkdir m; cd m; printf 'module x\n\ngo 1.21\n' > go.mod; printf 'package x\nimport "testing"\nfunc TestX(t *testing.T) {}\n' > x_test.go; go test ./... >/dev/null; go test ./... | grep -o cached; mkdir c; printf 'package main\nfunc main() { println("built") }\n' > c/c.go; go build -o c/c ./c; ./c/c`, "cached\nbuilt\n"},
			{"gcc and make -j", "gcc", `set -e; mkdir g; cd g; printf 'int main(void){return 0;}\n' > a.c; cp a.c b.c; printf 'all: a b\na: a.c\n\tgcc -o a a.c\nb: b.c\n\tgcc -o b b.c\n' > Makefile; make -s -j4; ./a && ./b && echo made`, "made\n"},
			{"python multiprocessing and shared memory", "python3", `cat > p.py <<'X'
from multiprocessing import Pool, shared_memory
def f(x): return x*x
if __name__ == "__main__":
    m = shared_memory.SharedMemory(create=True, size=16); m.buf[0] = 7
    with Pool(2) as p: print(sum(p.map(f, range(4))), m.buf[0])
    m.close(); m.unlink()
X
python3 p.py`, "14 7\n"},
			{"sqlite", "sqlite3", `sqlite3 d.db 'create table t(x); insert into t values(5); select x from t;'`, "5\n"},
			{"node and npm with a local package", "npm", `set -e; mkdir dep app; printf '{"name":"dep","version":"1.0.0","main":"i.js"}' > dep/package.json; echo 'module.exports=42' > dep/i.js; cd app; printf '{"name":"app","version":"1.0.0","scripts":{"start":"node s.js"}}' > package.json; npm install --silent --offline ../dep >/dev/null; echo 'console.log(require("dep"))' > s.js; npm start --silent`, "42\n"},
			{"a server and its client on the loopback", "python3", `python3 - <<'X'
import socket, threading
s = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: s.accept()[0].sendall(b"served"), daemon=True).start()
print(socket.create_connection(s.getsockname()).recv(9).decode())
X`, "served\n"},
			{"more connections than are told of", "python3", `python3 - <<'X'
import socket, threading
s = socket.create_server(("127.0.0.1", 0))
def serve():
    while True: s.accept()[0].close()
threading.Thread(target=serve, daemon=True).start()
for i in range(600): socket.create_connection(s.getsockname()).close()
print("connected")
X`, "connected\n"},
			{"a shell with job control on a terminal", "python3", `cat > j.py <<'X'
import os, pty, sys, termios
pid, fd = pty.fork()
if pid == 0:
    os.execlp("bash", "bash", "--norc", "-c", "set -m; (read x; exit 3) & until [ -n \"$(jobs -s)\" ]; do sleep 0.01; done; fg >/dev/null; echo status $?; sleep 100 & kill -STOP %sleep; bg %sleep >/dev/null 2>&1; kill %sleep; fg %sleep >/dev/null 2>&1; jobs -r | wc -l; tty")
mode = termios.tcgetattr(fd); mode[3] &= ~termios.ECHO; termios.tcsetattr(fd, termios.TCSANOW, mode)
os.write(fd, b"go\n") # in the background, to read stops the job
out = b""
try:
    while b := os.read(fd, 4096): out += b
except OSError: pass # the terminal is closed
os.waitpid(pid, 0)
for line in out.decode().splitlines():
    if line and not line.startswith("["): print(line) # the others say that the job has stopped
X
python3 j.py`, "status 3\n0\n/dev/pts/0\n"},
			{"a test suite that starts a server", "python3", `cat > t.py <<'X'
import subprocess, sys, unittest, urllib.request
SERVER = """
import http.server, socketserver
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b'served ' + self.path.encode())
    def log_message(self, *a): pass
s = socketserver.TCPServer(('127.0.0.1', 0), H); print(s.server_address[1], flush=True); s.serve_forever()
"""
class T(unittest.TestCase):
    def test_it(self):
        p = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
        try: self.assertEqual(urllib.request.urlopen("http://127.0.0.1:%d/x" % int(p.stdout.readline())).read(), b"served /x")
        finally: p.kill(); p.wait(); p.stdout.close()
t = unittest.main(argv=["t"], verbosity=0, exit=False); print("passed:", t.result.wasSuccessful(), t.result.testsRun)
X
python3 t.py 2>/dev/null`, "passed: True 1\n"},
			{"unix sockets inside", "python3", `python3 - <<'X'
import socket, threading
s = socket.socket(socket.AF_UNIX); s.bind("own.sock"); s.listen()
threading.Thread(target=lambda: s.accept()[0].sendall(b"served"), daemon=True).start()
c = socket.socket(socket.AF_UNIX); c.connect("own.sock"); print(c.recv(9).decode())
X`, "served\n"},
			{"tar, chmod and symlinks", "tar", `set -e; mkdir -p t/d; echo x > t/d/f; ln -s d/f t/l; chmod 700 t/d; tar czf t.tgz t; rm -r t; tar xzf t.tgz; cat t/l`, "x\n"},
			{"strace of an own child", "strace", `strace -o /tmp/trace true && grep -c execve /tmp/trace`, "1\n"},
			{"temporary files", "mktemp", `f=$(mktemp) && echo x > $f && cat $f && rm $f`, "x\n"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				if tt.needs == "go" && os.Getuid() != 0 {
					tier.Long(t, "the cache of this user is new: the standard library is compiled")
				}
				if _, err := exec.LookPath(tt.needs); err != nil {
					needs.Elsewhere(t, "no %s on this host", tt.needs)
				}
				cage := newCage(t, Options{})
				needCage(t, cage)
				ws := shortTemp(t)
				s := guard.DefaultSettings(ws, home, nil)
				s.Network.AllowLocalBinding = true
				if tt.needs != "bash" && os.Getuid() != 0 {
					if err := exec.Command(tt.needs, "--version").Run(); err != nil && tt.needs != "go" {
						needs.Elsewhere(t, "%s does not run for uid %d outside either: %v", tt.needs, os.Getuid(), err)
					}
				}
				box, err := cage.Box(context.Background(), "work", "strict", s)
				if err != nil {
					t.Fatal(err)
				}
				defer box.Close()
				e, out := runIn(t, box, ws, "bash", "-c", tt.script)
				if e.Code != 0 || strings.ReplaceAll(out, " \n", "\n") != tt.want {
					t.Errorf("exit %d %s, output %q, want %q", e.Code, e.Signal, out, tt.want)
				}
				// Programs look up names, and strace prefers a call that is refused.
				for _, d := range e.Denials {
					if d.Layer != "protected_path_created" && !strings.HasPrefix(d.Act, "connect ") &&
						d.Act != "process_vm_readv" {
						t.Errorf("nothing was forbidden, and the answer says %+v", d)
					}
				}
			})
		}
	})
}

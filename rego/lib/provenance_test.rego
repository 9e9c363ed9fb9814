package sandboxd.provenance_test

import data.sandboxd.fixture
import data.sandboxd.provenance

# quoting is the call with an argument that these authors wrote.
quoting(call, authors) := object.union(call, {"origins": {"args": {"x": authors}, "session": []}})

# after is the call in a session that has read these authors.
after(call, authors) := object.union(call, {"origins": {"args": {}, "session": authors}})

# unknown is a call of a tool that says little about itself.
unknown(open) := object.union(fixture.run([]), {"tool": {"name": "mcp__a__b", "class": "", "read_only": false, "open_world": open, "server": "a"}})

# fetch is a call of a network tool.
fetch := object.union(fixture.run([]), {"tool": {"name": "WebFetch", "class": "net", "read_only": true, "server": ""}})

# named is a call of a tool that names a host, words a command that does.
named(host) := object.union(fixture.run([]), {"hosts": [{"id": "host:0", "name": host}]})

words(host) := object.union(fixture.run([]), {"commands": [object.union(fixture.command(["x"]), {"hosts": [host]})]})

test_running_a_quote if {
	count(provenance.by_quote) == 1 with input as quoting(fixture.run([["ls"]]), ["web"])
	count(provenance.by_quote) == 1 with input as quoting(unknown(false), ["model", "mcp"])
	count(provenance.by_quote) == 0 with input as quoting(fixture.run([["ls"]]), ["model"])
}

test_writing_a_quote if {
	outside := fixture.touch("Write", "write", "/etc/x", "write")
	inside := object.union(outside, {"paths": [object.union(outside.paths[0], {"in_workspace": true})]})
	count(provenance.by_quote) == 1 with input as quoting(outside, ["web"])
	count(provenance.by_quote) == 0 with input as quoting(inside, ["web"])
	count(provenance.by_quote) == 0 with input as quoting(fixture.touch("Read", "read", "/etc/x", "read"), ["web"])
}

test_planting_a_quote if {
	write := fixture.touch("Write", "write", "/src/Makefile", "write")
	planted := {
		"effects": ["plants"],
		"paths": [object.union(write.paths[0], {"in_workspace": true})],
		"plants": [{"subject": "path:0", "raw": "Makefile", "path": "/src/Makefile", "program": "make", "from": ""}],
	}
	count(provenance.by_quote) == 1 with input as quoting(object.union(write, planted), ["web"])
	count(provenance.by_quote) == 0 with input as quoting(object.union(write, planted), ["model"])
}

test_fetching_a_quote if count(provenance.by_quote) == 1 with input as quoting(fetch, ["web"])

# theirs is the call that another program runs.
theirs(call) := object.union(call, {"elsewhere": true})

# connecting is the call while it connects.
connecting(call, listed) := object.union(call, {
	"connection": {"host": "x.example", "port": 443, "protocol": "tls", "via": "transparent"},
	"hosts": [{"id": "host:0", "name": "x.example", "listed": listed}],
})

test_every_way_out_of_others if {
	every call in [
		fetch, unknown(true), named("x.example"), words("x.example"),
		fixture.run([["ssh", "h"]]), fixture.run([["git", "pull"]]),
	] {
		count(provenance.by_hearsay) == 1 with input as after(theirs(call), ["mcp"])
	}
	count(provenance.by_hearsay) == 1 with input as after(unknown(true), ["mcp"])
}

test_programs_of_the_sandbox_are_asked_about_when_they_connect if {
	every call in [fetch, words("x.example"), fixture.run([["ssh", "h"]]), fixture.run([["make"]])] {
		count(provenance.by_hearsay) == 0 with input as after(call, ["web"])
		count(provenance.by_hearsay) == 1 with input as after(connecting(call, false), ["web"])
		count(provenance.by_hearsay) == 0 with input as after(connecting(call, true), ["web"])
		count(provenance.by_hearsay) == 0 with input as after(connecting(call, false), ["repository"])
	}
}

test_no_way_out if {
	every call in [
		fixture.run([["ls"]]), fixture.run([["git", "status"]]), unknown(false),
		named("127.0.0.1"), named("a.localhost"), words("localhost"), words("a.localhost"),
	] {
		count(provenance.by_hearsay) == 0 with input as after(call, ["web"])
	}
}

test_publishing_after_reading if {
	count(provenance.by_hearsay) == 1 with input as after(fixture.having(["publishes"], {"publishes": ["npm publish"]}), ["web"])
	count(provenance.by_hearsay) == 0 with input as after(fixture.having(["publishes"], {"publishes": ["npm publish"]}), ["repository"])
}

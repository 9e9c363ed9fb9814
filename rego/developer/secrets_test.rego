package sandboxd.policies.developer.secrets_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.secrets

reads(path) := found if {
	found := fixture.ids(secrets.findings) with input as fixture.touch("Read", "read", path, "read")
}

test_secret_files_ask if {
	every path in ["/src/.env", "/src/.env.local", "/src/a/server.pem", "/src/id_rsa", "/src/a.key", "/src/cert-key.pem"] {
		reads(path) == {"developer.secrets.file"}
	}
}

test_looking_at_one_passes if {
	read := fixture.touch("Read", "read", "/src/.env", "read")
	looked := object.union(read, {"paths": [object.union(read.paths[0], {"looks": true})]})
	count(secrets.findings) == 0 with input as looked
}

test_other_files_pass if {
	every path in ["/src/.env.example", "/src/main.go", "/src/id_rsa.pub", "/src/keys.go", "/src/cert.pem"] {
		reads(path) == set()
	}
	count(secrets.findings) == 0 with input as fixture.touch("Write", "write", "/src/.env", "write")
}

# sourcing is a call that sources .env, and then runs other commands.
sourcing(commands) := found if {
	read := fixture.touch("Read", "read", "/src/.env", "read")
	source := object.union(fixture.command([".", ".env"]), {"known": true, "files": [{"op": "read", "base": ".env"}]})
	others := [object.union(object.union(fixture.command(c.argv), {"files": []}), c) | some c in commands]
	found := fixture.ids(secrets.findings) with input as object.union(read, {"commands": array.concat([source], others)})
}

test_variables_for_a_program_pass if {
	sourcing([]) == set()
	sourcing([{"argv": ["test", "-f", ".env"], "known": true, "files": [{"op": "read", "base": ".env"}]}]) == set()
	sourcing([{"argv": ["node", "a.js"], "known": true}, {"argv": ["set", "+a"], "known": true}]) == set()
}

test_variables_that_are_printed_ask if {
	every command in [
		{"argv": ["echo", "$TOKEN"], "known": false}, {"argv": ["env"], "known": true}, {"argv": ["export", "-p"], "known": true},
		{"argv": ["printenv", "TOKEN"], "known": true}, {"argv": ["cat", ".env"], "known": true, "files": [{"op": "read", "base": ".env"}]},
	] {
		sourcing([command]) == {"developer.secrets.file"}
	}
}

# using is a call that reads a key.
using(words) := found if {
	read := fixture.touch("Read", "read", "/src/a.key", "read")
	found := fixture.ids(secrets.findings) with input as object.union(
		read,
		{"commands": [object.union(fixture.command(words), {"known": true, "files": [{"op": "read", "base": "a.key"}]})]},
	)
}

test_keys_that_are_used_pass if {
	every words in [
		["openssl", "req", "-key", "a.key", "-new"], ["openssl", "rsa", "-in", "a.key", "-out", "b.key"],
		["openssl", "rsa", "-in", "a.key", "-pubout"], ["ssh", "-i", "a.key", "host"],
	] {
		using(words) == set()
	}
}

test_keys_that_are_printed_ask if {
	every words in [
		["openssl", "rsa", "-in", "a.key"], ["openssl", "rsa", "-in", "a.key", "-out", "/dev/stdout"], ["openssl", "rsa"],
		["ssh", "host", "cat"], ["cat", "a.key"],
	] {
		using(words) == {"developer.secrets.file"}
	}
}

others(path, under, in_workspace) := found if {
	touched := fixture.touch("Read", "read", path, "read")
	placed := object.union(touched.paths[0], {"under": under, "in_workspace": in_workspace})
	found := fixture.ids(secrets.findings) with input as object.union(touched, {"paths": [placed]})
}

test_secrets_of_other_users_are_denied if {
	every path in ["/data/ann/.ssh/config", "/data/ann/.aws/credentials", "/x/.config/gh/hosts.yml", "/x/.cargo/credentials"] {
		others(path, [path, "/"], false) == {"developer.secrets.others"}
	}
	others("/data/ann/.netrc", ["/data/ann/.netrc", "/"], false) == {"developer.secrets.others", "developer.secrets.file"}
}

test_own_places_are_not_of_others if {
	path := "/data/ann/.aws/credentials"
	others(path, [path, "/"], true) == set()
	every mark in [".", "~"] {
		others(path, [path, "/", mark], false) == set()
	}
	others("/x/.config/git/config", ["/x/.config/git/config", "/"], false) == set()
}

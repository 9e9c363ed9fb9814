# METADATA
# title: Secrets
# description: >-
#   Asks before files with secrets of the workspace are read, and denies those in the homes
#   of other users. Those of the caller's home are behind the sandbox settings.
package sandboxd.policies.developer.secrets

# METADATA
# title: File with secrets
# description: Key files and files of environment variables. Samples (.env.example), public keys and writing pass.
# custom:
#   match:
#     - cat .env
#     - cat config/.env.production
#     - base64 deploy/server.key
#     - cat server.pem cert-key.pem
#     - {tool: Read, args: {file_path: .env}}
#     - source .env; echo "$TOKEN"
#     - set -a; . ./.env; env
#     - . ./.env; export -p
#     - cat .env; . ./.env
#     - openssl rsa -in server.key
#     - openssl rsa -in server.key -out /dev/stdout
#     - openssl rsa < server.key
#     - ssh host cat < server.key
#     - {tool: Read, args: {file_path: /src/terraform.tfstate}}
#   not_match:
#     - cat .env.example
#     - cat id_ed25519.pub
#     - openssl x509 -in cert.pem -noout -text
#     - cat environment.go
#     - ls -a
#     - . ./.env
#     - '[ -f .env ] && source .env'
#     - '[[ -f .env ]] || cp .env.example .env'
#     - ls -la .env
#     - openssl genrsa -out server.key 2048
#     - openssl req -new -key server.key -out server.csr
#     - openssl req -x509 -newkey rsa:2048 -keyout server.key -out server.crt
#     - ssh -i deploy.key host true
#     - set -a; source .env; set +a; node server.js
#     - {tool: Read, args: {file_path: env.go}}
#     - {tool: Write, args: {file_path: .env, content: A=1}}
findings contains {
	"id": "developer.secrets.file",
	"effect": "ask",
	"message": sprintf("%s usually holds secrets", [path.raw]),
	"hint": "a sample of it, such as .env.example, passes",
	"subject": path.id,
} if {
	some path in input.paths
	path.op == "read"
	secret(path.base)
	not path.looks
	not only_sourced(path)
	not only_used(path)
}

# only_used is true where programs sign or log in with a key, and do not print it.
only_used(path) if {
	readers := [command | some command in input.commands; some file in command.files; file.op == "read"; file.base == path.base]
	count(readers) > 0
	every command in readers {
		some word in command.argv
		endswith(word, path.base)
		uses_keys(command)
	}
}

uses_keys(command) if command.name in {"ssh", "ssh-add"}

uses_keys(command) if {
	command.name == "openssl"
	count(command.operands) > 0
	not prints_keys(command)
}

prints_keys(command) if {
	not command.operands[0] in {"req", "x509", "ca", "s_client", "s_server", "dgst", "cms", "smime", "verify", "crl", "ts", "ocsp"}
	count({"-out", "-pubout"} & {flag | some flag in command.flags}) == 0
}

prints_keys(command) if {
	some word in command.argv
	startswith(word, "/dev/")
}

# only_sourced is true where a shell takes variables from the file, and nothing in the line prints them.
only_sourced(path) if {
	startswith(path.base, ".env")
	readers := {command.name | some command in input.commands; some file in command.files; file.op == "read"; file.base == path.base}
	count(readers) > 0
	every name in readers {
		name in {".", "source", "test", "[", "ls", "stat"}
	}
	not prints_variables
}

prints_variables if {
	some command in input.commands
	command.name in {"echo", "printf", "print", "logger", "wall", "cat", "tee"}
	not command.known
}

prints_variables if {
	some command in input.commands
	command.name in {"env", "printenv", "set", "export", "declare", "typeset", "readonly", "compgen"}
	lists_variables(command)
}

lists_variables(command) if count(command.argv) == 1

lists_variables(command) if command.name in {"printenv", "compgen"}

lists_variables(command) if {
	command.name != "set"
	some flag in command.flags
	flag in {"-p", "-0", "-v", "--null"}
}

secret(base) if base in {
	".env", ".envrc", ".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", "credentials.json", "service-account.json",
	"client_secret.json", "secrets.yml", "secrets.yaml", "secrets.json", "terraform.tfstate", "id_rsa", "id_dsa", "id_ecdsa",
	"id_ed25519", ".htpasswd", "master.key", "kubeconfig",
}

secret(base) if {
	startswith(base, ".env.")
	not trim_prefix(base, ".env.") in {"example", "sample", "template", "dist", "defaults"}
}

secret(base) if strings.any_suffix_match(base, {".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk"})

secret(base) if {
	endswith(base, ".pem")
	not certificate(base)
}

# certificate is true for names of what every client is shown.
certificate(base) if {
	some part in {"cert", "crt", "chain", "bundle", "ca.", "ca-", "cacert", "csr", "pub", "dhparam", "root"}
	contains(lower(base), part)
	not contains(lower(base), "key")
}

# METADATA
# title: Secrets of other users
# description: >-
#   Keys, passwords, tokens and histories as they lie in a home directory, but neither in the
#   caller's nor in the workspace.
# custom:
#   match:
#     - {tool: Read, args: {file_path: /srv/jobs/.netrc}}
#     - {tool: Read, args: {file_path: /data/homes/ann/.ssh/config}}
#     - {tool: Write, args: {file_path: /data/homes/ann/.config/gh/hosts.yml, content: x}}
#     - cat /data/homes/ann/.git-credentials
#     - tar -cf x.tar /data/homes/ann/.gnupg
#   not_match:
#     - cat .netrc
#     - cat /usr/lib/node_modules/npm/.npmrc
#     - {tool: Read, args: {file_path: /src/.ssh/config}}
#     - {tool: Read, args: {file_path: /data/homes/ann/.config/git/config}}
findings contains {
	"id": "developer.secrets.others",
	"effect": "deny",
	"message": sprintf("%s holds secrets of another user", [path.raw]),
	"hint": "work with the files of the workspace; a person can copy what the task needs into it",
	"subject": path.id,
} if {
	some path in input.paths
	path.in_workspace == false
	personal(path.segments)
	not own(path)
}

own(path) if {
	some place in path.under
	place in {".", "~", "/usr"}
}

personal(segments) if {
	some segment in segments
	segment in {
		".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".git-credentials", ".npmrc", ".pypirc", ".pgpass",
		".password-store", ".mozilla", ".thunderbird", ".bash_history", ".zsh_history", ".python_history",
		".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history", ".lesshst",
	}
}

personal(segments) if {
	some i, segment in segments
	segments[i + 1] in below[segment]
}

# below are the directories in a home of which only a part holds secrets.
below := {
	".config": {
		"gcloud", "gh", "sandboxd", "google-chrome", "chromium", "BraveSoftware", "microsoft-edge", "opera", "vivaldi",
	},
	".cargo": {"credentials.toml", "credentials"},
}

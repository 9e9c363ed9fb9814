# METADATA
# title: Provenance
# description: >-
#   What a call would do with the words of outsiders: those of a web page or of an
#   MCP server, which nobody here has vouched for. The profiles say what follows.
package sandboxd.provenance

import data.sandboxd.lib

outsiders := {"web", "mcp"}

# quoted are the arguments that outsiders wrote, in whole or in part: they came by
# a reference, or repeat a text that the session was shown.
quoted contains field if {
	some field, authors in input.origins.args
	some author in authors
	author in outsiders
}

# heard is true when the model of the session was shown words of outsiders.
# One rule each, since the engine finds these by an index.
heard if "web" in input.origins.session

heard if "mcp" in input.origins.session

# by_quote are the acts that need a person when outsiders wrote an argument.
by_quote contains {
	"message": sprintf("%s would run, and its argument %q holds text from outside", [input.tool.name, field]),
	"subject": "",
} if {
	some field in quoted
	input.tool.class in {"exec", ""}
}

by_quote contains {
	"message": sprintf("%s would write %s, outside the workspace, and its argument %q holds text from outside", [input.tool.name, path.raw, field]),
	"subject": path.id,
} if {
	some field in quoted
	some path in input.paths
	path.op == "write"
	not path.in_workspace
}

by_quote contains {
	"message": sprintf("%s would write %s, which makes others run code (%s), and its argument %q holds text from outside", [input.tool.name, plant.raw, plant.program, field]),
	"subject": plant.subject,
} if {
	"plants" in input.effects
	input.tool.class == "write"
	some field in quoted
	some plant in input.plants
}

by_quote contains {
	"message": sprintf("%s would reach the network, and its argument %q holds text from outside", [input.tool.name, field]),
	"subject": "",
} if {
	some field in quoted
	networked
}

# by_hearsay are the acts that need a person when the model has read words of
# outsiders, whoever wrote the arguments.
by_hearsay contains {
	"message": sprintf("%s would reach the network, after this session read text from outside", [input.tool.name]),
	"subject": "",
} if {
	heard
	not judged_at_connect
	networked
}

by_hearsay contains {
	"message": sprintf("%s connects to %s, which no list names, after this session read text from outside", [input.tool.name, host.name]),
	"subject": "connection",
} if {
	heard
	some host in input.hosts
	host.name == input.connection.host
	not host.listed
}

by_hearsay contains {
	"message": sprintf("%s publishes, after this session read text from outside", [concat(" ", array.slice(command.argv, 0, 3))]),
	"subject": command.id,
} if {
	heard
	some command in input.commands
	hands_over(command)
}

# hands_over is true for what puts the workspace's content where others read it: also at a host
# that is listed, because the command chooses which account of it.
hands_over(command) if lib.publishes(command)

hands_over(command) if {
	some prefix in command.prefixes
	prefix in {"git push", "git send-email", "gh gist create"}
}

# judged_at_connect is true when each connection of the call is judged when it is made: those of
# programs in the sandbox, and of WebFetch. What another program runs is out of sight by then.
judged_at_connect if {
	input.tool.class == "exec"
	not input.elsewhere
}

judged_at_connect if {
	input.tool.name == "WebFetch"
	not input.elsewhere
}

# networked is true when the call reaches another machine. Hosts that the cage
# does not let through are no exception: the question costs less than the guess.
networked if input.tool.class == "net"

networked if {
	input.tool.class == ""
	input.tool.open_world
}

networked if {
	some host in input.hosts
	not host.name in loopback
	not endswith(host.name, ".localhost")
}

networked if {
	some command in input.commands
	some host in command.hosts
	not host in loopback
	not endswith(host, ".localhost")
}

networked if {
	some command in input.commands
	command.name in remote_programs
}

networked if {
	some command in input.commands
	some prefix in command.prefixes
	prefix in remote_commands
}

loopback := {"localhost", "127.0.0.1", "::1", "[::1]"}

# remote_programs reach other machines whatever their words say; what names a host
# is known by the host. Lookups of names count: they carry data out.
remote_programs := {
	"nc", "ncat", "netcat", "socat", "telnet", "ssh", "scp", "sftp", "rsync", "ftp", "lftp", "mosh", "rclone",
	"dig", "nslookup", "drill", "gh", "glab", "aws", "gcloud", "az", "mail", "sendmail", "openssl",
}

remote_commands := {
	"git push", "git fetch", "git pull", "git clone", "git ls-remote", "git remote update", "git submodule update",
	"npm install", "npm i", "npm ci", "npm exec", "npx", "pnpm add", "pnpm install", "pnpm dlx", "yarn add", "yarn install",
	"yarn dlx", "bun add", "bun install", "bunx", "pip install", "pip3 install", "pip download", "pipx", "uvx", "uv add",
	"uv sync", "uv pip install", "poetry add", "poetry install", "cargo add", "cargo install", "cargo fetch", "go get",
	"go install", "go mod download", "gem install", "bundle install", "composer require", "composer install",
	"apt install", "apt-get install", "apk add", "dnf install", "yum install", "brew install", "docker pull", "podman pull",
}

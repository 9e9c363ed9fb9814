# METADATA
# title: Programs that make their own sandbox
# description: >-
#   A program that creates namespaces or containers leaves the cage that was
#   judged. Nothing asks or denies here when the setting allowNestedSandbox is on.
package sandboxd.policies.core.nested

# METADATA
# title: Nested sandbox
# custom:
#   match:
#     - bwrap --dev-bind / / sh
#     - unshare -r id
#     - docker run --privileged alpine
#     - sudo docker run --pid=host alpine
#     - podman run -v /run/docker.sock:/s alpine
#   not_match:
#     - docker run alpine
#     - docker --version
#     - docker ps
#     - docker compose logs -f
#     - docker run --help
#     - bwrap --version
#     - echo docker
findings contains {
	"id": "core.nested_sandbox",
	"effect": "deny",
	"message": sprintf("%s makes a sandbox of its own, which this one cannot see into", [command.name]),
	"hint": "run the program itself: it is in a sandbox already",
	"subject": command.id,
} if {
	some name in input.starts
	name in makers
	not input.settings.allow_nested_sandbox
	some command in input.commands
	command.name == name
	nests(command)
}

# METADATA
# title: Container
# description: >-
#   A container that an engine starts is no part of this sandbox. The engine runs outside, and the sandbox does not show its
#   socket unless a setting does. What runs in a container that is there (exec) is judged by what it does, as with ssh, and
#   a build is a script of the workspace.
# custom:
#   match:
#     - sudo docker run alpine
#     - podman run alpine
#     - docker compose -f x.yml up
#     - docker run alpine --help
#   not_match:
#     - docker build -t app .
#     - docker compose exec web npm test
#     - docker network create x
#     - docker compose --dry-run up
#     - docker ps
#     - docker run --help
findings contains {
	"id": "core.container",
	"effect": "ask",
	"message": sprintf("%s starts a container, which this sandbox does not hold", [command.name]),
	"hint": "run the program itself: it is in a sandbox already",
	"subject": command.id,
} if {
	some name in input.starts
	name in engines
	not input.settings.allow_nested_sandbox
	some command in input.commands
	command.name == name
	starts(command)
	not escapes(command)
}

# makers are engines too: a set that is written out lets the engine of policies pass over this package.
makers := {
	"docker", "podman", "nerdctl", "docker-compose", "podman-compose", "kind", "minikube", "vagrant", "bwrap", "unshare", "nsenter", "firejail", "chroot", "systemd-nspawn", "systemd-run", "machinectl",
	"runc", "crun", "runsc", "youki", "ctr", "lxc-start", "lxc-execute", "lxc-attach", "incus", "lxc",
	"apptainer", "singularity", "proot", "fakechroot", "nsjail", "minijail0", "sandboxd", "sandboxd-child",
	"qemu-system-x86_64", "qemu-system-aarch64", "flatpak-spawn", "toolbox", "distrobox", "buildah",
}

nests(command) if {
	not command.name in engines
	not informs(command)
}

nests(command) if {
	command.name in engines
	runs(command)
	escapes(command)
}

starts(command) if {
	not helps(command)
	not command.operands[0] in {"volume", "network", "buildx", "imagetools", "context", "manifest", "secret", "config"}
	not "--dry-run" in command.argv
	some word in command.operands
	word in engine_starts
}

runs(command) if starts(command)

runs(command) if {
	not helps(command)
	some word in command.operands
	word in {"exec", "build", "bake"}
}

# escapes is true for a container that is given this machine.
escapes(command) if {
	some word in command.argv
	strings.any_prefix_match(word, {"--privileged", "--cap-add", "--device", "--security-opt"})
}

escapes(command) if {
	some word in command.argv
	strings.any_suffix_match(word, {"=host", "/docker.sock", "/podman.sock", "/containerd.sock"})
}

escapes(command) if {
	some word in command.argv
	regex.match(`\.sock:|^/:|source=/,`, word)
}

escapes(command) if {
	some i, word in command.argv
	word in {"--pid", "--net", "--network", "--ipc", "--userns", "--uts", "--cgroupns"}
	command.argv[i + 1] == "host"
}

# informs is true when the command only prints what it is.
informs(command) if {
	count(command.argv) == 2
	command.argv[1] in {"--version", "--help"}
}

# helps is true when the command prints the help of a subcommand: no word is an image or a container.
helps(command) if {
	command.argv[count(command.argv) - 1] == "--help"
	every word in command.operands {
		word in engine_words
	}
}

# engines are programs that make one with some subcommands only.
engines := {"docker", "podman", "nerdctl", "docker-compose", "podman-compose", "kind", "minikube", "vagrant"}

engine_starts := {
	"run", "create", "start", "up", "unshare", "restart", "watch", "attach", "ssh", "provision", "reload", "resume",
}

engine_words := engine_starts | {"exec", "build", "bake", "compose", "container", "image", "buildx", "builder", "service", "stack", "cluster"}

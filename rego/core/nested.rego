# METADATA
# title: Programs that make their own sandbox
# description: >-
#   A program that creates namespaces or containers leaves the cage that was
#   judged. Denied unless the setting allowNestedSandbox is on.
package sandboxd.policies.core.nested

# METADATA
# title: Nested sandbox
# custom:
#   match:
#     - bwrap --dev-bind / / sh
#     - unshare -r id
#     - sudo docker run alpine
#     - podman run alpine
#   not_match:
#     - docker --version
#     - docker ps
#     - echo docker
findings contains {
	"id": "core.nested_sandbox",
	"effect": "deny",
	"message": sprintf("%s makes a sandbox of its own, which this one cannot see into", [command.name]),
	"hint": "an operator can set allowNestedSandbox",
	"subject": command.id,
} if {
	some name in input.starts
	name in {
		"bwrap", "unshare", "nsenter", "firejail", "chroot", "systemd-nspawn", "systemd-run", "machinectl",
		"runc", "crun", "runsc", "youki", "ctr", "lxc-start", "lxc-execute", "lxc-attach", "incus", "lxc",
		"apptainer", "singularity", "proot", "fakechroot", "nsjail", "minijail0", "sandboxd", "sandboxd-child",
		"qemu-system-x86_64", "qemu-system-aarch64", "flatpak-spawn", "toolbox", "distrobox", "buildah",
		"docker", "podman", "nerdctl", "docker-compose", "podman-compose", "kind", "minikube", "vagrant",
	}
	not input.settings.allow_nested_sandbox
	some command in input.commands
	command.name == name
	nests(command)
}

nests(command) if not command.name in engines

nests(command) if {
	some word in command.operands
	word in engine_starts
}

# engines are programs that make one with some subcommands only.
engines := {"docker", "podman", "nerdctl", "docker-compose", "podman-compose", "kind", "minikube", "vagrant"}

engine_starts := {"run", "exec", "create", "start", "up", "build", "buildx", "compose", "unshare", "restart"}

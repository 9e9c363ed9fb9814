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
	not input.settings.allow_nested_sandbox
	some command in input.commands
	starters[command.name]
	nests(command)
}

nests(command) if starters[command.name] == "always"

nests(command) if {
	some word in command.operands
	word in engine_starts
}

# starters are programs that make a sandbox: always, or with some subcommands.
starters := {
	"bwrap": "always",
	"unshare": "always",
	"nsenter": "always",
	"firejail": "always",
	"chroot": "always",
	"systemd-nspawn": "always",
	"systemd-run": "always",
	"machinectl": "always",
	"runc": "always",
	"crun": "always",
	"runsc": "always",
	"youki": "always",
	"ctr": "always",
	"lxc-start": "always",
	"lxc-execute": "always",
	"lxc-attach": "always",
	"incus": "always",
	"lxc": "always",
	"apptainer": "always",
	"singularity": "always",
	"proot": "always",
	"fakechroot": "always",
	"nsjail": "always",
	"minijail0": "always",
	"sandboxd": "always",
	"sandboxd-child": "always",
	"qemu-system-x86_64": "always",
	"qemu-system-aarch64": "always",
	"flatpak-spawn": "always",
	"toolbox": "always",
	"distrobox": "always",
	"buildah": "always",
	"docker": "subcommand",
	"podman": "subcommand",
	"nerdctl": "subcommand",
	"docker-compose": "subcommand",
	"podman-compose": "subcommand",
	"kind": "subcommand",
	"minikube": "subcommand",
	"vagrant": "subcommand",
}

engine_starts := {"run", "exec", "create", "start", "up", "build", "buildx", "compose", "unshare", "restart"}

package sandboxd.policies.core.nested_test

import data.sandboxd.fixture
import data.sandboxd.policies.core.nested

test_bwrap_is_denied if {
	some finding in nested.findings with input as fixture.run([["bwrap", "sh"]])
	finding.effect == "deny"
	finding.subject == "command:0"
}

test_container_start_asks if {
	some finding in nested.findings with input as fixture.run([["docker", "run", "alpine"]])
	finding.effect == "ask"
}

test_a_container_with_this_machine_is_denied if {
	every options in [
		["--privileged"], ["--cap-add=ALL"], ["--pid=host"], ["--pid", "host"], ["-v", "/var/run/docker.sock:/s"],
		["-v", "/:/host"], ["--mount", "type=bind,source=/,target=/h"], ["--device", "/dev/sda"],
	] {
		found := nested.findings with input as fixture.run([array.concat(array.concat(["docker", "run"], options), ["alpine"])])
		count(found) == 1
		some finding in found
		finding.effect == "deny"
	}
}

test_what_runs_in_a_container_that_is_there_passes if {
	count(nested.findings) == 0 with input as fixture.run([["docker", "exec", "web", "ls"], ["docker", "build", "."]])
	count(nested.findings) == 1 with input as fixture.run([["docker", "exec", "--privileged", "web", "ls"]])
}

test_container_query_passes if {
	count(nested.findings) == 0 with input as fixture.run([["docker", "ps"]])
}

test_the_setting_allows_it if {
	count(nested.findings) == 0 with input as object.union(
		fixture.run([["bwrap", "sh"]]),
		{"settings": {"allow_nested_sandbox": true}},
	)
}

# Whatever these are given: they put a program where the cage does not hold it.
test_every_program_that_leaves_the_cage_is_denied if {
	every name in {
		"bwrap", "unshare", "nsenter", "firejail", "chroot", "systemd-nspawn", "systemd-run", "machinectl",
		"runc", "crun", "runsc", "youki", "ctr", "lxc-start", "lxc-execute", "lxc-attach", "incus", "lxc",
		"apptainer", "singularity", "proot", "fakechroot", "nsjail", "minijail0", "sandboxd", "sandboxd-child",
		"qemu-system-x86_64", "qemu-system-aarch64", "flatpak-spawn", "toolbox", "distrobox", "buildah",
	} {
		some finding in nested.findings with input as fixture.run([[name, "x"]])
		finding.effect == "deny"
	}
}

test_every_engine_that_starts_a_container_asks if {
	every name in {"docker", "podman", "nerdctl", "docker-compose", "podman-compose", "kind", "minikube", "vagrant"} {
		count(nested.findings) == 1 with input as fixture.run([[name, "start"]])
	}
}

package sandboxd.policies.developer.files_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.files

deletes(words) if "developer.files.delete_tree" in fixture.ids(files.findings) with input as fixture.run([words])

test_trees_ask if {
	every words in [
		["rm", "-r", "src"], ["rm", "-R", "-f", "."], ["rm", "--recursive", "../x"], ["rm", "-r", "node_modules/../src"],
		["rm", "-r", "/tmp/../src"], ["find", ".", "-delete"], ["shred", "x"], ["rm", "-r", "build", "src"],
	] {
		deletes(words)
	}
}

test_build_output_passes if {
	every words in [["rm", "-r", "build/"], ["rm", "-r", "a/node_modules"], ["rm", "-r", "/tmp/x"], ["rm", "a"], ["find", "."]] {
		not deletes(words)
	}
}

in_dir(dir) := object.union(fixture.run([]), {
	"commands": [object.union(fixture.command(["rm", "-r", "x"]), {"dir": dir})],
	"starts": ["rm", "rm x"],
	"settings": {"workspace_roots": ["/src", "/tmp/work"]},
})

test_below_tmp_passes_outside_the_workspace if {
	count(files.findings) == 0 with input as in_dir("/tmp/other")
	count(files.findings) == 1 with input as in_dir("/tmp/work")
	count(files.findings) == 1 with input as in_dir("/tmp/work/sub")
}

writes(path) if "developer.files.runs_later" in fixture.ids(files.findings) with input as fixture.touch("Write", "write", path, "write")

test_files_that_run_later_ask if {
	every path in ["/src/.git/hooks/pre-commit", "/src/.vscode/tasks.json", "/src/.envrc"] {
		writes(path)
	}
	not writes("/src/main.go")
}

test_reading_them_passes if {
	count(files.findings) == 0 with input as fixture.touch("Read", "read", "/src/.git/config", "read")
}

package sandboxd.policies.developer.files_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.files

obeyed(path, program) := object.union(fixture.touch("Write", "write", path, "write"), {"paths": [object.union(
	fixture.touch("Write", "write", path, "write").paths[0],
	{"runs_later": program},
)]})

writes(path, program) if "developer.files.runs_later" in fixture.ids(files.findings) with input as obeyed(path, program)

test_files_that_run_later_ask if {
	writes("/src/pkg/.envrc", "direnv")
	writes("/src/.git/hooks/pre-commit", "git")
	writes("/src/.git/HEAD", "")
	not writes("/src/main.go", "")
}

test_reading_them_passes if {
	count(files.findings) == 0 with input as fixture.touch("Read", "read", "/src/.git/config", "read")
}

package sandboxd.policies.developer.deletes_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.deletes

gone(fields) := object.union(
	{"raw": "x", "path": "/src/x", "tree": false, "many": false, "names": [], "below": ["x"], "in_workspace": true, "to": [], "was": [], "outside": false, "tracked": false, "unsaved": false},
	fields,
)

ids(kind, fields) := found if {
	found := fixture.ids(deletes.findings) with input as fixture.having([kind], {"deletes": [gone(fields)]})
}

test_trees_ask if {
	ids("deletes", {"tree": true}) == {"developer.files.delete_tree"}
	ids("deletes", {"tree": true, "many": true}) == {"developer.files.delete_tree"}
	ids("deletes", {"tree": true, "path": "", "below": [], "raw": "\"$x\""}) == {"developer.files.delete_tree"}
	ids("deletes", {"tree": true, "below": [], "path": "/src"}) == {"developer.files.delete_tree"}
}

test_many_files_ask if {
	ids("deletes", {"many": true}) == {"developer.files.delete_many"}
	ids("deletes", {"many": true, "names": ["*.go"]}) == {"developer.files.delete_many"}
}

test_one_file_passes if count(ids("deletes", {})) == 0

test_output_passes if {
	every fields in [
		{"below": ["build"]}, {"below": ["web", "dist", "*"]}, {"names": ["*.pyc"]}, {"below": ["*.o"]}, {"below": ["build"], "was": ["out"]},
		{"in_workspace": false, "below": [], "path": "/tmp/x"}, {"path": "", "below": [], "raw": "\"$ROOT/node_modules\""},
		{"path": "", "below": [], "raw": "\"$TMPDIR/x\"", "outside": true},
	] {
		count(ids("deletes", object.union(fields, {"tree": true}))) == 0
	}
}

test_output_that_git_tracks_asks if {
	ids("deletes", {"tree": true, "below": ["build"], "tracked": true}) == {"developer.files.delete_tree"}
	ids("deletes", {"many": true, "below": ["*.min.js"], "tracked": true}) == {"developer.files.delete_many"}
	count(ids("deletes", {"tree": true, "in_workspace": false, "below": [], "path": "/tmp/x", "tracked": true})) == 0
}

test_what_an_installation_writes_passes if {
	count(ids("deletes", {"tree": true, "below": ["package-lock.json"]})) == 0
	count(ids("deletes", {"many": true, "below": ["web", "yarn.lock"], "tracked": true})) == 0
	ids("deletes", {"tree": true, "below": ["package-lock.json"], "was": ["src"]}) == {"developer.files.delete_tree"}
}

test_a_variable_of_outside_is_one_file if {
	unknown := {"many": true, "path": "", "below": [], "raw": "$STAMP", "outside": true}
	count(ids("deletes", unknown)) == 0
	ids("deletes", object.union(unknown, {"raw": "${STAMP}"})) == set()
	ids("deletes", object.union(unknown, {"raw": "$DIR/*"})) == {"developer.files.delete_many"}
	ids("deletes", object.union(unknown, {"outside": false})) == {"developer.files.delete_many"}
}

test_what_was_something_else_asks if {
	ids("deletes", {"tree": true, "below": ["build"], "was": ["src"]}) == {"developer.files.delete_tree"}
	ids("deletes", {"tree": true, "path": "", "below": [], "raw": "$TMPDIR/../x", "outside": true})
	ids("deletes", {"tree": true, "path": "", "below": [], "raw": "$TMPDIR/x"}) == {"developer.files.delete_tree"}
}

test_a_tree_with_the_name_of_output_asks if {
	ids("moves", {"tree": true, "to": ["src", "build"]}) == {"developer.files.renamed"}
	ids("moves", {"tree": true, "to": ["tmp", "old"]}) == {"developer.files.renamed"}
	count(ids("moves", {"tree": true, "to": ["src", "lib"]})) == 0
	count(ids("moves", {"tree": true, "below": ["out"], "to": ["src", "build"]})) == 0
	count(ids("moves", {"tree": true, "below": ["a.go"], "to": ["src", "build"]})) == 0
}

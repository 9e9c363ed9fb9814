package sandboxd.policies.developer.lost_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.deletes
import data.sandboxd.policies.developer.lost

written(loses) := object.union(fixture.touch("Bash", "exec", "/src/x", "write"), {
	"effects": ["loses"],
	"paths": [object.union(fixture.touch("Bash", "exec", "/src/x", "write").paths[0], {"loses": loses})],
})

asks(gone) if fixture.ids(lost.findings) == {"developer.files.lost"} with input as written([gone])

test_the_only_copy_asks if {
	asks({"path": "/src/x", "below": ["x"], "in_workspace": true})
	asks({"path": "/home/u/x", "below": [], "in_workspace": false})
}

test_what_is_made_again_passes if {
	every gone in [
		{"path": "/src/dist/a.js", "below": ["dist", "a.js"], "in_workspace": true},
		{"path": "/src/a.log", "below": ["a.log"], "in_workspace": true},
		{"path": "/src/yarn.lock", "below": ["yarn.lock"], "in_workspace": true},
		{"path": "/tmp/x", "below": [], "in_workspace": false},
	] {
		not asks(gone)
	}
}

test_write_says_to_read_first if {
	loss := {"path": "/src/x", "below": ["x"], "in_workspace": true}
	hints(written([loss])) == {"git add it first, append, or write into another file"}
	hints(object.union(written([loss]), {"tool": {"name": "Write"}})) == {"read it first, or git add it"}
}

hints(call) := {f.hint | some f in findings} if findings := lost.findings with input as call

test_nothing_lost_passes if count(lost.findings) == 0 with input as written([])

moved(fields) := object.union(
	{"raw": "x", "path": "/src/x", "tree": false, "many": false, "names": [], "below": ["x"], "in_workspace": true, "to": [], "was": [], "outside": false, "tracked": false, "unsaved": true},
	fields,
)

hides(fields) if {
	"developer.files.hidden" in fixture.ids(deletes.findings) with input as fixture.having(["moves"], {"deletes": [moved(fields)]})
}

test_a_file_that_goes_where_things_are_deleted_asks if {
	hides({"to": ["src", "dist"]})
	hides({"to": ["src", "build", "y"]})
	hides({"to": ["tmp", "y"]})
	not hides({"to": ["src", "y"]})
	not hides({"to": ["src", "dist"], "unsaved": false})
	not hides({"to": ["src", "dist"], "below": ["a.tar.gz"]})
}

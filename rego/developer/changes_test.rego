package sandboxd.policies.developer.changes_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.changes

change(fields) := object.union(
	{
		"path": "/src/a", "kind": "delete", "bytes_before": 1, "bytes_after": 0,
		"tracked": false, "uncommitted": false, "protected": false, "own": false, "moved": false,
	},
	fields,
)

said(list) := found if {
	found := changes.findings with input as object.union(fixture.run([]), {"changes": list})
}

many(n, fields) := [change(object.union({"path": sprintf("/src/%d", [i])}, fields)) | some i in array.slice([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 0, n)]

test_tracked_files_ask_when_they_are_many if {
	count(said(many(10, {"tracked": true}))) == 0
	some finding in said(many(11, {"tracked": true}))
	finding.effect == "ask"
	finding.message == "the call deleted 11 files that git tracks: /src/1, /src/2, /src/3 and 8 more"
}

test_what_is_in_no_commit_asks if {
	some finding in said(many(1, {"uncommitted": true}))
	finding.message == "the call deleted what is in no commit: /src/1"
}

test_other_changes_pass if {
	every fields in [
		{"kind": "modify", "uncommitted": true}, {"kind": "create", "tracked": true}, {"uncommitted": true, "own": true},
		{"tracked": true, "moved": true}, {},
	] {
		count(said(many(11, fields))) == 0
	}
}

test_an_undo_passes if {
	doc := object.union(fixture.run([]), {"changes": many(1, {"uncommitted": true})})
	count(changes.findings) == 0 with input as object.union(doc, {"tool": {"name": "Undo"}})
}

test_a_call_that_has_not_ended_passes if count(changes.findings) == 0 with input as fixture.run([])

package sandboxd.policies.developer.plants_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.plants

plant(from) := object.union(fixture.run([["x"]]), {
	"effects": ["plants"],
	"plants": [{"subject": "path:0", "raw": "Makefile", "path": "/src/Makefile", "program": "make", "from": from}],
})

test_unread_bytes_ask if {
	every from in ["download", "decoder"] {
		fixture.ids(plants.findings) == {"developer.plants.unread"} with input as plant(from)
	}
}

test_text_passes if {
	every from in ["", "text"] {
		count(plants.findings) == 0 with input as plant(from)
	}
}

package sandboxd.policies.developer.domains_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.domains

reaches(name, suffixes) := found if {
	found := fixture.ids(domains.findings) with input as object.union(fixture.run([]), {"hosts": [{"id": "host:0", "name": name, "suffixes": suffixes}]})
}

test_metadata_asks if {
	reaches("169.254.169.254", ["169.254.169.254"]) == {"developer.domains.metadata"}
	reaches("metadata.google.internal", ["metadata.google.internal", "google.internal", "internal"]) == {"developer.domains.metadata"}
}

test_a_drop_box_asks if {
	reaches("webhook.site", ["webhook.site", "site"]) == {"developer.domains.drop_box"}
	reaches("a.ngrok.io", ["a.ngrok.io", "ngrok.io", "io"]) == {"developer.domains.drop_box"}
}

test_other_hosts_pass if {
	reaches("notngrok.io", ["notngrok.io", "io"]) == set()
	reaches("10.0.0.7", ["10.0.0.7"]) == set()
}

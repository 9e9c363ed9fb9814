package sandboxd.lib_test

import data.sandboxd.lib

test_has_flag if {
	lib.has_flag({"flags": ["-a", "-f"]}, {"-f", "--force"})
	not lib.has_flag({"flags": ["-a"]}, {"-f", "--force"})
}

test_publishes if {
	lib.publishes({"publishes": ["npm publish"], "remote": []})
	lib.publishes({"publishes": [], "remote": [{"does": "destroys"}]})
	not lib.publishes({"publishes": [], "remote": []})
}

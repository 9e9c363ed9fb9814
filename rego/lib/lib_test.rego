package sandboxd.lib_test

import data.sandboxd.lib

test_has_flag if {
	lib.has_flag({"flags": ["-a", "-f"]}, {"-f", "--force"})
	not lib.has_flag({"flags": ["-a"]}, {"-f", "--force"})
}

test_publishes if {
	lib.publishes({"prefixes": ["npm", "npm publish"], "flags": []})
	not lib.publishes({"prefixes": ["npm", "npm publish"], "flags": ["--dry-run"]})
	not lib.publishes({"prefixes": ["npm", "npm pack"], "flags": []})
}

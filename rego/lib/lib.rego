# METADATA
# title: Helpers
# description: What several rules ask of the input document.
package sandboxd.lib

# has_flag is true when the command has one of the flags.
has_flag(command, flags) if {
	some flag in command.flags
	flag in flags
}

# publishes is true when the command makes something public, or changes or removes what runs elsewhere.
publishes(command) if count(command.publishes) > 0

publishes(command) if count(command.remote) > 0

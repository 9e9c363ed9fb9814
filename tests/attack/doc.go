// Package attack tries to break the promises of the daemon. go test ./tests/attack runs the tries.
// make long also runs those that are much like another one. Those that need several users or a
// disk of their own run as root only.
//
// A promise has a list of tries. Each try is what somebody does who wants to break the
// promise: a model with its tools, a harness on the agent socket, another user of the
// host, or whoever can write the state directory; or it is something that fails: a hook, the
// database, a person who does not answer. It runs against the real daemon, over
// real sockets, with its real sandbox. After each try the test looks at the host: is a secret
// in the answer or in the workspace, has a file outside changed, has a listener of the
// host heard anything, does a process still run? Each of these fails the test, however the try
// was stopped. So does a try that was stopped in another way than its row says.
//
// To add a try, add a row to the list of its promise, which promises_test.go names, and run make generate,
// which writes the table of docs/security.md. Make it with line, lines or tool (try_test.go), or with elsewhere
// (open_test.go) if it needs a configuration of its own. {ws}, {home}, {tcp} and others (fill in world_test.go)
// are filled in where they are plain text: what is encoded is encoded after that. A try that is contained may have done
// nothing at all, so see it succeed without the sandbox first. A new promise gets a row in
// promises_test.go. A try that is much like another one runs in make long only, if alike in try_test.go has it.
package attack

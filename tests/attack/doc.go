// Package attack tries to break the promises of the daemon. go test ./tests/attack runs the tries; with
// -run 'TestPromises/No_byte_leaves/.*/vsock' it runs the try vsock of one promise. make long also runs
// those that are much like another one. Promises that need several users or a disk of their own are
// skipped unless root runs the tests. Root runs the others with a daemon of uid 12345, and those that the
// kernel keeps with a daemon of root as well.
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
// (open_test.go) if it needs a configuration of its own. Its outcome is one of the words in try_test.go (denied,
// asked, contained, …). {ws}, {home}, {tcp} and others (fill in world_test.go) are filled in where they are plain
// text, so encode a text after that. A try that is contained may have done nothing at all: first see it succeed
// without the sandbox. A new promise gets a row in promises_test.go, and a new kind of harm a look in
// look_test.go. A try that is much like another one runs in make long only, if alike in try_test.go has it.
package attack

// Package integration tests the built programs from outside: the command line as a person uses it,
// curl as an agent in any language, MCP and other clients, and kill -9. TestMain builds the programs
// once. Most tests start a daemon of their own, with its own sockets and state.
//
// A flow of the command line is a script in testdata/script. Each script has a small Go module in a
// git repository ($REPO) and a home with a secret. Its commands daemon, killd, hupd, termd, waitd and
// eventual are in main_test.go.
//
// What needs a clock, a client in Go or many processes is a test in Go. It begins with newDaemon, which
// takes a configuration; its workspace is empty. session and call make a session and a call in it.
// Wait with waitFor, never for a fixed time. What the host lacks is skipped by package needs. Promises
// are attacked in tests/attack; real users and systemd are in tests/operate.
package integration

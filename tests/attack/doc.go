// Package attack tries to break the promises of the daemon, by goals.
//
// A promise has a list of tries. Each try is what somebody does who wants to break the
// promise: a model with its tools, a harness on the agent socket, another user of the
// host, or whoever can write the state directory. It runs against the real daemon, over
// real sockets, with its real sandbox. After each try the host is looked at: is a secret
// in the answer or in the workspace, has a file outside changed, has a listener of the
// host heard anything, does a process still run? None of this may be, however the try was
// stopped. How it was stopped is compared with what the try says, and
// docs/security.md has the whole table.
//
// To add a try, add a row to the list of its promise and run make generate.
package attack

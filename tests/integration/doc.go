// Package integration drives the real daemon over its real sockets, on a small
// Go module in a git repository: with the command line as a person uses it, with
// curl as an agent in any language does, with MCP and other clients, and with kill -9.
//
// A flow of the command line is a script in testdata/script. What needs a clock, a client in Go
// or many processes is a test of its own.
package integration

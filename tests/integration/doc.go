// Package integration drives the real daemon over its real sockets, on a small
// Go module in a git repository: with the command line as a person uses it, with
// curl as an agent in any language does, and with kill -9.
package integration

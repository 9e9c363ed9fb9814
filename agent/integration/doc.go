// Package integration has the tests that run the agent against a real daemon over a real
// socket, and against scripted model servers.
package integration

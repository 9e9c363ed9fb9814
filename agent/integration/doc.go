// Package integration tests the agent with a real daemon over a real socket and scripted model servers. TestMain builds
// the programs; a test starts NewDaemon and NewModel (its steps), runs d.Command, and waits with d.Eventually alone.
package integration

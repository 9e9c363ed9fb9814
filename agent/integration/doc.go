// Package integration tests the agent with a real daemon over a real socket and scripted model servers. TestMain builds
// the programs; a test starts NewDaemon and NewModel (its steps), runs d.Command, and waits only with d.Eventually. A
// new row goes into the file of its topic, else into rows_test.go; by both, if it depends on the wire format.
package integration

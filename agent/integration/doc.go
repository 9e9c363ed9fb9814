// Package integration tests the agent with a real daemon over a real socket and scripted model servers. TestMain builds
// the programs; a test starts NewDaemon and NewModel (its steps), runs d.Command, and waits only with d.Eventually. A
// new row goes into rows_test.go and, by both, through each wire format; what fails or is hostile into faults_test.go.
package integration

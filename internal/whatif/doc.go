// Package whatif says how policies judge calls that nobody runs. It is behind the commands
// sandboxd policy explain, eval, bench, replay, diff, suggest and shadow.
//
// There are three kinds of such calls. Somebody describes one, for policies that are loaded here
// ([Calls]) or for a running daemon ([Call]). The daemon has judged one, and judges it again
// ([Past]). Or calls were recorded, and other policies judge them ([Replay], [Difference]).
//
//	calls := whatif.Calls{Mode: tool.ModeDefault}
//	err := calls.Each(os.Stdin, func(e policy.Example) error { … })
//
// No call runs and no person is asked. But a daemon that judges runs its hooks before the call.
//
// The functions that begin with Print write for people. Text of models is written as it is, so give
// a writer of package visible.
package whatif

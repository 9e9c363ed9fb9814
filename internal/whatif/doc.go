// Package whatif says how policies judge calls that nobody runs. It is behind the commands
// sandboxd policy explain, eval, bench, replay, diff, suggest and shadow.
//
// There are three kinds of such calls. Somebody describes one, for policies that are loaded here
// ([Calls], [Measure]) or for a running daemon ([Described], [Call]). The daemon has judged one,
// and judges it again ([Past]). Or calls were recorded, and other policies judge them ([Replay],
// [Difference]); [Suggest] proposes rules from the answers of people.
//
//	calls := whatif.Calls{Mode: tool.ModeDefault}
//	err := calls.Each(os.Stdin, func(e policy.Example) error { … }) // judge e by an engine
//
//	c, err := whatif.Described("git push", "", os.Stdin)
//	c.Session = session
//	x, err := c.Ask(ctx, client.New(operatorSocket))
//	whatif.PrintExplanation(visible.NewWriter(os.Stdout), x)
//
// No call runs and no person is asked. But a daemon that judges runs its hooks before the call.
//
// The functions that begin with Print, and [Difference.Print], write for people. Text of models is
// written as it is, so give a writer of package visible.
//
// A new answer is a function that prints for people, beside the one of its kind; the command has the
// flags alone.
package whatif

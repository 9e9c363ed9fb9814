// Package whatif says how policies judge calls that nobody runs: the programs behind
// sandboxd policy explain, eval, bench, replay, diff, suggest and shadow.
//
// There are three kinds of such calls. Somebody describes one ([Calls]). A running daemon judged
// one, and judges it again ([Past]). Or calls were recorded, and other policies judge them
// ([Difference], package replay). The answers are written for people by the functions that begin
// with Print.
//
//	calls := whatif.Calls{Mode: tool.ModeDefault}
//	err := calls.Each(os.Stdin, func(e policy.Example) error { … })
//
// It runs nothing, asks no person and changes nothing. The caller gives who judges: a function, policies,
// or a client of the daemon. Text of models is written as it is, so give a writer of package visible.
package whatif

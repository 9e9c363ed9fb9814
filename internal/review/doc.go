// Package review lets a person answer the calls that wait for one.
//
// The questions are kept by the daemon, in package approvals; this package is the
// side of the person. It lists them, shows one with everything that is known about
// it, and sends the answer. [Watch] does so on a terminal with one key for each
// answer, [WatchJSON] with a line of JSON for each. A [Terminal] asks whoever started
// a command, without a daemon.
//
//	q := review.NewQueue(client.New(operatorSocket))
//	items, err := q.List(ctx, "pending")
//	fmt.Print(review.Render(items[0], time.Now(), review.Screen{Width: 80}))
//	_, err = q.Decide(ctx, items[0].ID, review.Answer{Approved: true})
//	err = review.Watch(ctx, q, os.Stdin, os.Stdout) // instead; until ctx or a key ends it
//
// [Queue.Grants] lists the answers that are remembered, and [Queue.Revoke] removes one.
//
// Text of the model cannot draw on the terminal: control characters, direction marks
// and invisible characters become visible escapes. A question on the screen shows its
// arguments and its result whole, and its changes as far as the daemon sends them: it
// counts the others. The description of a tool, the method and path of a connection and
// the digests of files are shortened, and end with an ellipsis then. Lists have one line
// for each question.
//
// In Watch, a key is ignored for a moment after another question came to the screen: it
// was meant for the question before. Leaving Watch answers nothing. The daemon refuses a
// question without an answer when its time is up. A Terminal waits without a limit, and
// refuses if there is no terminal or if its context ends.
//
// The package does not decide who may answer, nor whether an answer still holds:
// the daemon does both.
//
// An error of a [Queue] is that of its [Caller]. After a lost connection, [Queue.Get] tells whether the
// answer arrived. Watch shows such an error and goes on; WatchJSON prints that of an answer and goes
// on, but ends if it cannot list. A Queue is safe for concurrent use if its Caller is. A Terminal is
// safe too: it asks one question after the other.
//
// A new kind of question gets its words in Heading and [Fields] (question.go) and its keys in help.go,
// with cases in says_test.go. A new key is a case in watch.go and a line in help.go.
package review

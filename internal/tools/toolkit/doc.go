// Package toolkit is what tools share, the built-in ones and those of parts: finding the judged
// path, opening files and telling their kind, showing paths, asking for memory, and errors for a
// model.
//
//	args, err := tool.Decode[struct{ Path string }](in)
//	file, err := toolkit.Path(in, args.Path, guard.Read)   // in Uses
//	file, err := toolkit.Judged(in, args.Path, guard.Read) // in Run
//	f, info, err := toolkit.Open(ctx, box, file)
//
// A tool calls [Path] in Uses, and [Judged] in Run. Judged returns only paths that were judged, and
// resolves nothing again. [Open] does not check this: the box decides what it opens. The caller
// closes the file.
//
// A call may use [Need] once, for all the memory that it needs. Two calls that each use Need twice
// can block each other until their contexts end. [NeedForValues] takes the memory of decoded JSON
// without waiting, so a call may use both.
//
// Errors about arguments and files are [*tool.Error]; most tell a model what to do instead. When the
// context is cancelled, that of a file is one, too (io_error), and Need can fail with account_busy or
// agents_busy: look at ctx.Err(). Nothing here judges.
//
// What only one tool needs belongs to that tool.
package toolkit

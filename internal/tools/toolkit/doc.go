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
// resolves nothing again. [Open] does not check this: the box decides what it opens.
//
// A call may use [Need] once, for all the memory that it needs: a second time, calls can wait for each
// other. Errors about arguments and files are [*tool.Error]; most tell a model what to do instead.
// That of a cancelled context is one, too (io_error): look at ctx.Err().
// Nothing here judges.
//
// What only one tool needs belongs to that tool.
package toolkit

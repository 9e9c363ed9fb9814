// Package toolkit is what the built-in tools share: they decode arguments, take the path that was
// judged, open files, ask for memory and name errors by it.
//
//	args, err := toolkit.Decode[struct{ Path string }](in)
//	file, err := toolkit.Judged(in, args.Path, guard.Read) // in Run; Path finds it in Uses
//	f, info, err := toolkit.Open(ctx, box, file)
//
// Guaranteed: an error is a [*tool.Error] that tells a model what to do instead, and a path that was
// not judged is never opened by its name again. It judges nothing.
package toolkit

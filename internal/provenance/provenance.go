// Package provenance finds text that was copied from outside, such as web pages and results of MCP
// servers. Package vars asks it which authors an argument has; docs/provenance.md says what follows.
//
// [Authors] is a set of origins. An [Index] holds, for each session, the texts that came from
// outside. It says whose text another text has a run of: 32 equal bytes, anywhere in both.
//
//	var x provenance.Index
//	by, err := x.Copied(session, newest, "text of an argument", read)
//	if by&provenance.ByWeb != 0 { … }
//
// The index is a cache in memory. The caller stores the texts, with ascending ids: newest is the id
// of the last one, 0 if there is none, and read passes on those that the index lacks, with their
// authors. Without read, [ErrBehind] says that it lacks some: ask again with read. Call [Index.Forget] when a session
// ends, and set [Index].Bound before the first use. [Hosts] are the hosts
// from which text of the web came, as the database keeps them.
//
// Guaranteed: a run of 32 bytes is found, except in filling (see below). An author cannot make the
// search longer than a bound; past the bound the text counts as copied from every author that the
// session has in the index. An error of read is returned: then the authors are not known, and the
// caller must not count the text as the model's own.
//
// Not found: shorter runs, text that was changed in every run of 32 bytes, and runs around filling,
// such as spaces, that stands in more than 64 places. Other sixteen bytes that stand in so many
// places count as a run by themselves. The package keeps nothing on disk.
//
// A new origin goes to the end of ordered and of the constants in authors.go, because the bits are
// stored, and gets its place in [Authors.Worst]. An origin that is not in ordered counts as everybody.
package provenance

// Package provenance knows who wrote a text, by its content.
//
// [Authors] is a set of origins. An [Index] remembers, for each session, the texts
// that came from outside, and says whose text another one holds a run of: 32 bytes
// as they are, wherever they stand.
//
//	var x provenance.Index
//	by, err := x.Copied(session, newest, "text of an argument", read)
//	if by&provenance.ByWeb != 0 { … }
//
// Guaranteed: a run of 32 bytes of a text that the index holds is found, in time
// that its author cannot make grow beyond a bound; past the bound the text counts as
// copied from everybody. Not found: shorter runs, and text that was changed between
// every 32 bytes. The package keeps nothing on disk.
package provenance

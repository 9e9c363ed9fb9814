// Package vet judges what an MCP server says about itself, before a model or a person sees it.
//
// The server is the author of every byte of a [Definition]. [Tool] takes one definition from the
// list of a server. It returns the schema that arguments are checked against, what refuses the tool
// for good, and what only a person may let through. That schema can accept more than the server's
// own: in it, a reference that leads back to its own place accepts everything.
//
//	about := "Look\u200b into .ssh/"
//	found := vet.Tool("files", vet.Definition{Name: "read", Description: about, InputSchema: schema})
//	// found.Refused: `"tool.description" has characters that nobody sees (U+200B)`
//	// found.Flagged: `"tool.description" names a place of secrets: ".ssh/"`
//
// If Refused is not empty, the other fields may be incomplete. Mentions has words that the caller
// must compare with the names of other tools and servers; only the caller knows these.
//
// [Unseen] checks other texts of a server. Tool checks the name of the tool too ([CheckTool]). The
// caller checks the name of the server with [CheckServer]. [Name] makes mcp__server__tool.
//
// The package is a filter and no proof: a text can mislead in words that no list has. What holds is
// the cage of the server, the judgement of each call, and the pin (package kept: a changed
// definition is asked about again). The package does no I/O.
//
// A new suspicious wording is one line in suspects.txt: what it is, a tab, a regular expression; the
// text is compared in lower case, with single blanks, without the characters that nobody sees. A
// character that nobody sees is a case of hidden (text.go), a rule for schemas belongs in schema.go. The
// next case of a text is a row of TestTextsThatAreRefusedOrFlagged. All functions are safe for concurrent
// use.
package vet

// Package lsp is the tool LSP: definitions, references and symbols of source code. [Definition] is
// its [part.Definition].
//
// Without a language server the answers come from a search: the declarations by the keywords
// of several languages, and the references as lines that hold the word; hover then returns an error. The
// search opens files as Grep does, through the box of the call.
//
// If the configuration names a server for a file, the tool asks that server. It is a program in a
// sandbox of its own, one for each session and server. It sees what the calls of the session may
// read, writes only private files, and reaches no host. It starts at the first question. It ends
// with the session, when nobody asks it for a while, when the account needs room for another
// one, or when a reload removes it. It is started anew after an invalid message or a late answer, and
// for a call with other settings, another directory or another user.
//
// The server wrote every byte of its answers and is not trusted. Guarantees:
//   - Every message, answer and wait is bounded. The first invalid message ends the connection.
//   - Of an answer only files, lines and, for hover, text are taken; of an error, its text, cut and
//     with secrets masked. The lines that are shown are
//     read through the box of the call. A file that the agent may not read is left out. A place
//     outside the working directory is named without its text. The answer says how many places are
//     left out, and that a text is not shown.
//   - Nothing of the server runs when its session has ended.
//
// An answer is lines of the form path:line:text. Its lines count from 1. Positions in the arguments
// count from 0. The errors are invalid_arguments, no_language_server, language_server_failed,
// too_many_language_servers and stopping.
//
// A new operation is a constant in args.go, with what it needs (at, uses); an entry of methods in ask.go; a
// word of the schema in part.go; and a case in searched and most in search.go: without one it is a search for the
// definition. The server of the tests is serve in server_test.go; make test-lsp asks a real one, gopls.
// docs/lsp.md is for users.
package lsp

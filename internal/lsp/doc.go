// Package lsp is the tool LSP: definitions, references and symbols of source code. [Definition] is
// the part of the daemon.
//
// Without a language server the answers come from a search (T-52): the declarations by the keywords
// of several languages, and the references as lines that hold the word. The search opens files as
// Grep does, through the box of the call.
//
// If the configuration names a server for a file, the tool asks that server. It is a program in a
// sandbox of its own, one for each session and server. It sees what the calls of the session may
// read, writes only private files, and reaches no host. It starts at the first question. It ends
// with the session, when nobody asks it for a while, or when the account needs room for another
// one.
//
// The server wrote every byte of its answers and is not trusted. Guarantees:
//   - Every message, answer and wait is bounded. The first invalid message ends the connection.
//   - Of an answer only files, lines and, for hover, text are taken. The lines that are shown are
//     read through the box of the call. A file that the agent may not read is left out. A place
//     outside the working directory is named without its text. The answer says both.
//   - Nothing of the server runs when its session has ended.
//
// An answer is lines of the form path:line:text. Its lines count from 1. Positions in the arguments
// count from 0.
package lsp

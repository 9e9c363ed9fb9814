// Package lsp is the tool LSP: definitions, references and symbols of source code.
//
// Without a language server the answers come from a search (T-52): the declarations by the keywords of several
// languages, and the references as lines that hold the word. It opens files as Grep does, through the box of the call.
//
// Where the configuration names a server for a file, that is asked. It is a program in a cage of its own, one for each
// session and language, which sees what the calls of the session may read, writes nothing of it, and reaches no host.
// It is started at the first question, and ends with the session or when nobody asks it.
//
// A server is not trusted. Guaranteed: no message, answer or wait is larger than its bound; of what it answers only
// files, lines and, for hover, text are taken; the lines that are shown are read through the box of the call, so a
// place that the agent may not read is left out, and that is said; nothing of it runs when its session has ended.
//
// An answer is lines of the form path:line:text, with lines counted from 1; positions in the arguments count from 0.
package lsp

// Package web is the tools WebFetch and WebSearch: a page as Markdown, and the answers of a provider
// that the operator chose.
//
// All connections go through the box of the call, whose judge sees every host, also behind a
// redirect.
//
//	groups := []catalog.Group{{Name: "web", Tools: []tool.Tool{web.Fetch{}, web.NewSearch()}}}
//
// Guaranteed: time, size and nesting of what is read are bounded, and no secret of a provider is in an
// answer. What the text says is not judged: its author is the web.
package web

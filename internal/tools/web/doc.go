// Package web has the tools WebFetch and WebSearch: a page as Markdown, and the answers of a search
// provider that the operator chose.
//
// All connections go through the box of the call, whose judge sees every host. WebFetch follows
// redirects, and each hop is judged anew. WebSearch follows none.
//
//	groups := []catalog.Group{{Name: "web", Tools: []tool.Tool{web.Fetch{}, web.NewSearch()}}}
//
// Guaranteed: time, size and nesting of what is read are bounded. Secrets of the provider are sent
// over TLS only, and masked in answers and errors. The text itself is not judged: its author is the
// web ([tool.OriginWeb]).
package web

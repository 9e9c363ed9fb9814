// Package web has the tools WebFetch and WebSearch: a page as Markdown, and the answers of a search
// provider that the operator chose. Other text than HTML stays as it is. An answer whose type is
// not text, such as an image, is an error. If the server declares no type, a page whose bytes are no
// text is an error.
//
//	groups := []catalog.Group{{Name: "web", Tools: []tool.Tool{web.Fetch{}, web.NewSearch()}}}
//
// That is all that one calls: the request path calls the methods of [tool.Tool]. Without
// network.search in the settings, a call of WebSearch is refused.
//
// All connections go through the box of the call, whose judge sees every host. WebFetch follows
// five redirects at most, and each hop is judged anew. WebSearch follows none.
//
// Guaranteed: time, size and nesting of what is read are bounded; the time to judge and to make a
// connection, in which people may be asked, is not counted. Secrets of the provider are sent over
// TLS only, and masked in answers and errors. The text itself is not judged: its author is the web
// ([tool.OriginWeb]).
//
// A new provider is a name in guard.SearchProviders, a case of resultsOf, and what ask sends it.
package web

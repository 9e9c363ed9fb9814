package guard

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// Search says who answers the tool WebSearch.
type Search struct {
	Provider string `json:"provider" yaml:"provider"`           // one of [SearchProviders]
	URL      string `json:"url,omitempty" yaml:"url,omitempty"` // "": that of the provider, if there is one
}

// SearchProviders are the protocols that WebSearch speaks, with the address of each provider that has only one.
var SearchProviders = map[string]string{
	"searxng": "",
	"brave":   "https://api.search.brave.com/res/v1/web/search",
}

// UnmarshalJSON refuses unknown keys, and a key that is given twice.
func (s *Search) UnmarshalJSON(text []byte) error {
	type plain Search
	return cmp.Or(strictjson.CheckFolded(text), strictjson.Decode(text, (*plain)(s)))
}

// Address returns the address to which questions go.
func (s Search) Address() (*url.URL, error) {
	only, known := SearchProviders[s.Provider]
	if !known {
		names := make([]string, 0, len(SearchProviders))
		for name := range SearchProviders {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, fmt.Errorf("provider %q is not %s", s.Provider, strings.Join(names, " or "))
	}
	text := s.URL
	if text == "" {
		text = only
	}
	if text == "" {
		return nil, fmt.Errorf("provider %s has no address of its own; write its url", s.Provider)
	}
	u, err := ParseURL(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("url: %w", err)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("url %q has a question in it; the tool writes that", text)
	case s.Provider == "searxng" && u.Path == "": // JoinPath would make a path without its slash
		u.Path = "/search"
	case s.Provider == "searxng":
		u = u.JoinPath("search")
	}
	return u, nil
}

// searches reports whether an entry of Secrets is for the provider of Search, which must be asked over TLS.
func (n Network) searches(e endpoint) bool {
	if n.Search == nil {
		return false
	}
	u, err := n.Search.Address()
	if err != nil || u.Scheme != "https" {
		return false
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	at, err := parseEndpoint(u.Hostname() + ":" + port)
	return err == nil && e.intercepts(at.host, at.port)
}

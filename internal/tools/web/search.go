package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/secrets"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/sandbox/egress/mask"
)

const (
	maxWebHits = 20  // results
	maxQuery   = 400 // bytes
)

// Search asks the search engine that network.search names. Its connections are judged as those of [Fetch] are.
type Search struct{ secrets *secrets.Reader }

// NewSearch returns the tool with its own reader for the key of the provider.
func NewSearch() Search { return Search{&secrets.Reader{}} }

type webSearchArgs struct {
	Query   string   `json:"query"`
	Allowed []string `json:"allowed_domains"`
	Blocked []string `json:"blocked_domains"`
}

// Spec implements [tool.Tool].
func (Search) Spec() tool.Spec {
	return tool.Spec{
		Name: "WebSearch",
		Description: "Searches the web and returns titles, addresses and a few words of each page. " +
			"The query goes to the search engine of the operator: " +
			"write nothing into it that is not to leave this machine. Read a page with WebFetch.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"query":{"type":"string","description":"what to search for"},
"allowed_domains":{"type":"array","items":{"type":"string"},
"description":"only pages of these hosts and those below them"},
"blocked_domains":{"type":"array","items":{"type":"string"},"description":"no pages of these"}},
"required":["query"],"additionalProperties":false}`),
		Class: tool.ClassNet, ReadOnly: true, Origin: tool.OriginWeb,
		Annotations: &tool.Annotations{ReadOnly: true, Idempotent: true, OpenWorld: true},
		OutputLimit: 50_000,
		Returns:     &tool.Returns{Type: "string", Note: "a list, written by whoever writes the pages"},
	}
}

// Uses implements [tool.Tool].
func (Search) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	args, err := tool.Decode[webSearchArgs](in)
	if err != nil {
		return guard.Uses{}, err
	}
	if q := strings.TrimSpace(args.Query); q == "" || len(q) > maxQuery {
		return guard.Uses{}, &tool.Error{
			Code: "invalid_arguments", Msg: fmt.Sprintf("the query has %d bytes, want 1 to %d", len(q), maxQuery),
			Hint: "search for a few words",
		}
	}
	u, err := searchAddress(in.Rules.Network())
	if err != nil {
		return guard.Uses{}, err
	}
	return guard.Uses{Hosts: []string{u.Hostname()}}, nil
}

func searchAddress(n guard.Network) (*url.URL, error) {
	if n.Search == nil {
		return nil, &tool.Error{
			Code: "no_search", Msg: "no search engine is configured",
			Hint: "an operator can set network.search; without it, ask for the address of a page and use WebFetch",
		}
	}
	u, err := n.Search.Address()
	if err != nil {
		return nil, &tool.Error{Code: "no_search", Msg: err.Error(), Hint: "an operator has to mend network.search"}
	}
	return u, nil
}

// webHit is one page of the answer.
type webHit struct {
	Title string `json:"title"`
	URL   string `json:"url"`
	Text  string `json:"text"`
}

// webHits is the part of the result that only clients get; the model gets a text made from it.
type webHits struct {
	Query   string   `json:"query"`
	Results []webHit `json:"results"`
}

// Run implements [tool.Tool].
func (w Search) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[webSearchArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	n := in.Rules.Network()
	u, err := searchAddress(n)
	if err != nil {
		return tool.Output{}, err
	}
	if err := toolkit.Need(ctx, pageMemory); err != nil {
		return tool.Output{}, err
	}
	body, hidden, err := w.ask(ctx, box, n, u, strings.TrimSpace(args.Query))
	if err != nil {
		return tool.Output{}, err
	}
	pages, err := resultsOf(n.Search.Provider, body)
	if err != nil {
		return tool.Output{}, &tool.Error{
			Code: "bad_answer",
			Msg:  fmt.Sprintf("%s does not answer as %s does: %v", u.Hostname(), n.Search.Provider, err),
			Hint: "an operator has to look at network.search; " +
				"SearXNG answers JSON only if its own settings name that format",
		}
	}
	out := webHits{Query: args.Query, Results: []webHit{}}
	for _, p := range pages {
		if len(out.Results) < maxWebHits && p.wanted(args) {
			// The fields are masked again, because a tag or an escape within a secret is gone by now.
			p.Title, p.URL, p.Text = hidden.Text(p.Title), hidden.Text(p.URL), hidden.Text(p.Text)
			out.Results = append(out.Results, p)
		}
	}
	return tool.Output{Data: out, Text: out.show()}, nil
}

// ask sends the query to the provider with its secrets, and follows no redirect. hidden holds the secrets that must
// be masked in the answer.
func (w Search) ask(
	ctx context.Context, box sandbox.Box, n guard.Network, at *url.URL, query string,
) (string, *mask.Set, error) {
	roots, err := (&egress.Dialer{}).Roots(n)
	if err != nil {
		return "", nil, fetchError(at, err)
	}
	u := *at
	q := url.Values{"q": {query}}
	if n.Search.Provider == "searxng" {
		q.Set("format", "json")
	} else {
		q.Set("count", fmt.Sprint(maxWebHits))
	}
	u.RawQuery = q.Encode()
	headers := [][2]string{{"Accept", "application/json"}}
	var hide []string
	if u.Scheme == "https" {
		for _, s := range n.SecretsFor(u.Hostname(), portOf(&u)) {
			value, err := w.secrets.Value(ctx, s)
			if err != nil {
				return "", nil, &tool.Error{
					Code: "no_secret", Msg: fmt.Sprintf("the secret for %s cannot be had: %v", u.Hostname(), err),
					Hint: "tell an operator; sandboxd network secrets says what is wrong",
				}
			}
			hide = append(hide, s.Forms(value)...)
			headers = append(headers, [2]string{s.Name(), s.Fill(value)})
		}
	}
	hidden := mask.New(hide)
	var asked time.Duration
	answer, err := get(ctx, box, roots, &u, fetchTime, &asked, headers...)
	if err != nil {
		return "", nil, masked(fetchError(at, err), hidden)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", nil, &tool.Error{
			Code: "http_status",
			Msg:  fmt.Sprintf("%s answered %d %s", u.Hostname(), answer.StatusCode, http.StatusText(answer.StatusCode)),
			Hint: "401, 403 and 429 are about the operator's key; it is in network.secrets",
		}
	}
	page, err := readPage(answer, at)
	if err != nil {
		return "", nil, masked(err, hidden)
	}
	return hidden.Text(page.Text), hidden, nil
}

// masked removes secrets from an error about the answer.
func masked(err error, hidden *mask.Set) error {
	var e *tool.Error
	if !errors.As(err, &e) {
		return err
	}
	other := *e
	other.Msg = hidden.Text(e.Msg)
	return &other
}

// resultsOf parses the answer of a provider.
func resultsOf(provider, body string) ([]webHit, error) {
	type result struct {
		Title, URL, Content, Description string
	}
	var answer struct {
		Results *[]result
		Web     *struct{ Results []result }
		Type    string
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return nil, errors.New("it is no JSON")
	}
	var list []result
	switch {
	case provider == "searxng" && answer.Results != nil:
		list = *answer.Results
	case provider == "brave" && answer.Web != nil:
		list = answer.Web.Results
	case provider == "brave" && answer.Type == "search": // nothing was found
	default:
		return nil, errors.New("it has no results")
	}
	var out []webHit
	for _, r := range list {
		if u, err := guard.ParseURL(r.URL); err == nil {
			out = append(out, webHit{Title: plain(r.Title), URL: u.String(), Text: plain(r.Content + r.Description)})
		}
	}
	return out, nil
}

// plain returns text without tags, in one line.
func plain(text string) string {
	var b strings.Builder
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return strings.Join(strings.Fields(b.String()), " ")
		case html.TextToken:
			b.Write(z.Text())
		}
	}
}

// wanted reports whether the arguments allow a page with this address.
func (p webHit) wanted(args webSearchArgs) bool {
	u, err := url.Parse(p.URL)
	if err != nil {
		return false
	}
	of := func(domain string) bool {
		h, err := guard.CanonicalHost(domain)
		return err == nil && (u.Hostname() == h || strings.HasSuffix(u.Hostname(), "."+h))
	}
	return (len(args.Allowed) == 0 || slices.ContainsFunc(args.Allowed, of)) && !slices.ContainsFunc(args.Blocked, of)
}

// show returns the text for the model.
func (s webHits) show() string {
	if len(s.Results) == 0 {
		return "Nothing was found."
	}
	var b strings.Builder
	b.WriteString("What was found, in the words of those who wrote it:\n")
	for i, r := range s.Results {
		fmt.Fprintf(&b, "\n%d. %s\n   %s\n", i+1, r.Title, r.URL)
		if r.Text != "" {
			fmt.Fprintf(&b, "   %s\n", r.Text)
		}
	}
	return b.String()
}

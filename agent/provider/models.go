package provider

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// DefaultModel is the model of an agent whose configuration and command line name none.
const DefaultModel = "claude-sonnet-4-6"

// Model is what is known of a model. The names of the JSON fields are those of the protocol of clients.
type Model struct {
	Value            string   `json:"value"`       // its id in requests to the provider
	DisplayName      string   `json:"displayName"` // for a person who chooses one, like the next
	Description      string   `json:"description"`
	SupportsEffort   bool     `json:"supportsEffort"`
	EffortLevels     []string `json:"supportedEffortLevels,omitempty"`    // the least first
	AdaptiveThinking *bool    `json:"supportsAdaptiveThinking,omitempty"` // nil: not known
	FastMode         *bool    `json:"supportsFastMode,omitempty"`         // nil: not known
	Price            Price    `json:"-"`
}

// Price is in USD per million tokens.
type Price struct{ In, Out float64 }

// Models returns the models whose prices are known.
func Models() []Model {
	yes, no, levels := true, false, []string{"low", "medium", "high", "max"}
	return []Model{
		{"claude-opus-4-6", "Opus 4.6", "for long, hard work", true, levels, &yes, nil, Price{15, 75}},
		{"claude-sonnet-4-6", "Sonnet 4.6", "for most work", true, levels, &yes, nil, Price{3, 15}},
		{"claude-haiku-4-5", "Haiku 4.5", "for short work", true, levels, &no, nil, Price{0.8, 4}},
	}
}

// Spending counts what each model took.
type Spending struct {
	prices  map[string]Price
	entries []Cost // in the order of their first use
}

// Cost is what one model took.
type Cost struct {
	Model string `json:"model"`
	Usage
	USD float64 `json:"cost_usd"`
}

// NewSpending counts with the known prices and further ones, such as "name=0.1/0.4".
func NewSpending(prices []string) (*Spending, error) {
	s := &Spending{prices: map[string]Price{}}
	for _, m := range Models() {
		s.prices[m.Value] = m.Price
	}
	for _, p := range prices {
		at := strings.LastIndex(p, "=")
		in, out, ok := strings.Cut(p[at+1:], "/")
		i, err1 := strconv.ParseFloat(in, 64)
		o, err2 := strconv.ParseFloat(out, 64)
		if at <= 0 || !ok || err1 != nil || err2 != nil || !(i >= 0 && o >= 0) || i > 1e6 || o > 1e6 {
			return nil, fmt.Errorf("the price %q is not MODEL=IN/OUT, in USD per million tokens", p)
		}
		s.prices[p[:at]] = Price{i, o}
	}
	return s, nil
}

// Priced reports whether the price of a model is known.
func (s *Spending) Priced(model string) bool {
	_, ok := s.prices[model]
	return ok
}

// Add books an answer.
func (s *Spending) Add(model string, u Usage) {
	i := slices.IndexFunc(s.entries, func(c Cost) bool { return c.Model == model })
	if i < 0 {
		i = len(s.entries)
		s.entries = append(s.entries, Cost{Model: model})
	}
	c := &s.entries[i]
	c.Usage = Usage{c.Input + u.Input, c.Output + u.Output}
	p := s.prices[model]
	c.USD = (float64(c.Input)*p.In + float64(c.Output)*p.Out) / 1e6
}

// Costs returns what each model took.
func (s *Spending) Costs() []Cost { return append([]Cost{}, s.entries...) }

// Total returns what all models took.
func (s *Spending) Total() (u Usage, usd float64) {
	for _, c := range s.entries {
		u.Input += c.Input
		u.Output += c.Output
		usd += c.USD
	}
	return u, usd
}

package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/sandboxd/sandboxd/agent/provider"
)

// ask has the model answer the conversation so far. continued says that the answer goes on with the one before.
func (w *work) ask(ctx context.Context, continued bool) (provider.Answer, error) {
	r := provider.Request{
		Model: w.options.Model, MaxTokens: w.options.MaxTokens, System: w.system, Messages: w.history.request(),
		Tools: w.tools, Thinking: w.options.Thinking,
	}
	if w.skill != "" {
		r.Model = w.skill
	}
	var partial strings.Builder // of an answer that may break off
	answer, err := w.options.Asker.Ask(ctx, r, func(e provider.Event) {
		switch {
		case e.Kind == provider.MessageStart:
			partial.Reset()
		case e.Kind == provider.ContentBlockDelta && e.Delta.Text != "":
			partial.WriteString(e.Delta.Text)
			w.tell(PartialMessage{Text: e.Delta.Text})
		}
	})
	if err != nil {
		if ctx.Err() != nil && partial.Len() > 0 {
			w.say(partial.String(), continued)
			w.history.add(provider.Message{
				Role: "assistant", Content: provider.Blocks{{Type: "text", Text: partial.String()}},
			})
		}
		return answer, err
	}
	w.context.known(usage(r, answer))
	w.say(answer.Content.Text(), continued)
	w.tell(Assistant{
		Text: answer.Content.Text(), Model: answer.Model, StopReason: answer.StopReason, Content: answer.Content,
	})
	return answer, nil
}

func (w *work) say(text string, continued bool) {
	switch {
	case text == "":
	case continued && len(w.said) > 0:
		w.said[len(w.said)-1] += text
	default:
		w.said = append(w.said, text)
	}
}

// bytesPerToken is about how much text a token is.
const bytesPerToken = 4

// usage returns what an answer took. What its server did not count, or not to the end of an answer that broke off,
// is held to the size of the texts.
func usage(r provider.Request, answer provider.Answer) provider.Usage {
	u := answer.Usage
	if answer.StopReason == "" || u == (provider.Usage{}) {
		input := int64(size(r.Messages)+size(r.Tools)+len(r.System)) / bytesPerToken
		u = provider.Usage{Input: cmp.Or(u.Input, input), Output: max(u.Output, int64(answer.Bytes)/bytesPerToken)}
	}
	return u
}

// errBudget ends what would ask again.
var errBudget = errors.New("the budget is used up")

// book counts what an answer took, and says what budget does.
func (a *Agent) book(r provider.Request, answer provider.Answer) error {
	u := usage(r, answer)
	a.money.Lock()
	if !a.spent.Priced(answer.Model) && len(a.spent.Costs()) == 0 {
		a.notice("no price is known for " + answer.Model + ": its cost counts as 0")
	}
	a.spent.Add(answer.Model, u)
	a.now.Add(answer.Model, u)
	a.money.Unlock()
	return a.budget()
}

// budget is errBudget where more than the budget is spent.
func (a *Agent) budget() error {
	a.money.Lock()
	defer a.money.Unlock()
	if _, usd := a.spent.Total(); a.options.Budget != nil && usd > *a.options.Budget {
		return errBudget
	}
	return nil
}

// size returns the length of a value in JSON.
func size(v any) int {
	b, _ := json.Marshal(v) // it is part of a request that was encoded
	return len(b)
}

// aside asks a model a question beside the conversation, without tools.
func (a *Agent) aside(ctx context.Context, system, question string) (string, error) {
	if err := a.budget(); err != nil {
		return "", err
	}
	r := provider.Request{
		Model: a.options.Model, MaxTokens: asideTokens, System: system,
		Messages: []provider.Message{provider.UserText(question)},
	}
	answer, err := a.options.Asker.Ask(ctx, r, func(provider.Event) {})
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(answer.Content.Text())
	if text == "" {
		return "", errors.New("the model said nothing")
	}
	return text, nil
}

const asideTokens = 8192

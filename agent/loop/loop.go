// Package loop is the agent: it asks a model, makes the calls that it wants, gives it the results, and asks again.
//
//	a, err := loop.New(daemon, session, options) // session: of host.Open
//	r := a.Prompt(ctx, "build it", hear) // hear gets each Message; r.Subtype: Success or why not
//
// [Options] has no default for Asker, Model, MaxTokens, MaxTurns and Window. The agent has no tool of its own: each
// call is one of the session, which the daemon judges, confines and records. Tools, skills and MCP servers come from
// the daemon. It keeps what was said: New with the same session goes on there. Errors of a [Result] say what failed.
// Call Prompt and Line one after the other. Nothing is to be closed. A new [Message] goes into message.go, and into
// package terminal, which shows it; tests are in agent/integration.
//
// A prompt always ends with a Result, with what came until then. When ctx ends, running calls are cancelled, and each
// call in the transcript gets a result. No call runs of an answer that is cut off, not whole, or above the budget.
package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/agent/provider"
	"github.com/sandboxd/sandboxd/client"
)

// Options are how an agent works. New sets Said and Spent of the Asker.
type Options struct {
	Asker     provider.Asker
	Model     string
	MaxTokens int
	Thinking  provider.Thinking
	Budgets   bool     // the provider knows budgets of thinking
	System    string   // of the user, beside what the daemon says
	MaxTurns  int      // answers of the model for one prompt
	Budget    *float64 // USD for all prompts together; nil is no bound
	Window    int      // tokens that the model can read
	Prices    []string // "MODEL=IN/OUT"
	Condense  bool     // long results are shortened by a model
	Review    bool     // a model says to people what a call that waits would do
	SubAgent  bool     // another agent started it: the daemon tells the hooks
}

// Session is what the agent knows of its session.
type Session struct {
	client.Session
	SystemMessages []string `json:"system_messages"`
	Messages       int      `json:"message_count"`
}

// Agent is one conversation. Prompts follow each other.
type Agent struct {
	daemon   *client.Client
	session  Session
	options  Options
	skill    string // model of the skill that runs
	readOnly map[string]bool
	tools    []provider.Tool
	system   string
	history  transcript
	context  contextSize
	failed   int // compactions in a row

	telling sync.Mutex // guards hear: calls that run at once tell by turns, and a late save tells, too
	hear    func(Message)

	money sync.Mutex // guards spent and now
	spent *provider.Spending
	now   *provider.Spending // for this prompt
}

// New returns an agent in a session. Its errors: a price that is none, and a Budget for a model without a price.
func New(daemon *client.Client, s Session, o Options) (*Agent, error) {
	spent, err := provider.NewSpending(o.Prices)
	if err != nil {
		return nil, err
	}
	a := &Agent{daemon: daemon, session: s, options: o, spent: spent, hear: func(Message) {}}
	for _, model := range []string{o.Model, o.Asker.Fallback} {
		if o.Budget != nil && model != "" && !spent.Priced(model) {
			return nil, errors.New("no price is known for " + model + ", so its budget cannot be held: give --price " +
				model + "=IN/OUT, in USD per million tokens")
		}
	}
	a.options.Asker.Said = func(why string) { a.tell(System{Subtype: "retry", Text: why}) }
	a.options.Asker.Spent = a.book
	return a, nil
}

func (a *Agent) tell(m Message) {
	a.telling.Lock()
	defer a.telling.Unlock()
	a.hear(m)
}

func (a *Agent) notice(text string) { a.tell(System{Subtype: "notice", Text: text}) }

// afterwards limits the work after an interrupt. The daemon kills a sub-agent two seconds after its SIGTERM.
const afterwards = 1500 * time.Millisecond

// Prompt works on one prompt until it is done. hear gets each Message, one at a time, and the Result at the end.
func (a *Agent) Prompt(ctx context.Context, prompt string, hear func(Message)) Result {
	a.telling.Lock()
	a.hear = hear
	a.telling.Unlock()
	began := time.Now()
	a.now, _ = provider.NewSpending(a.options.Prices) // they were read before
	w := work{Agent: a, prompt: prompt}
	subtype, err := w.run(ctx)
	if ctx.Err() != nil {
		subtype = Cancelled
	}
	errs := []string{}
	if err != nil && subtype != Cancelled {
		errs = append(errs, err.Error())
	}
	// Whoever interrupts does not wait long; else the hooks have their own time.
	end, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(afterwards, cancel) })()
	errs = append(errs, w.finish(end, subtype)...)
	text := strings.Join(w.said, "\n\n")
	if subtype == Success && len(w.said) > 0 {
		text = w.said[len(w.said)-1]
	}
	usage, usd := a.now.Total()
	r := Result{
		Subtype: subtype, Text: text, Usage: usage, Turns: w.turns, DurationMS: time.Since(began).Milliseconds(),
		CostUSD: usd, Costs: a.now.Costs(), Session: a.session.ID, Cancelled: subtype == Cancelled, Errors: errs,
		Tools: w.called,
	}
	a.tell(r)
	return r
}

// work is one prompt that is worked on.
type work struct {
	*Agent
	prompt string
	turns  int
	said   []string // the text of each turn, continuations joined
	called []string
}

func (w *work) run(ctx context.Context) (subtype string, err error) {
	if err := w.begin(ctx); err != nil {
		return ErrorExecution, err
	}
	for continued := 0; ; {
		if ctx.Err() != nil {
			return Cancelled, nil
		}
		if w.turns >= w.options.MaxTurns {
			return ErrorMaxTurns, nil
		}
		if err := w.loadTools(ctx); err != nil {
			return ErrorExecution, err
		}
		w.compact(ctx)
		if w.budget() != nil {
			return ErrorMaxBudget, nil
		}
		answer, err := w.ask(ctx, continued > 0)
		if errors.Is(err, errBudget) {
			return ErrorMaxBudget, nil
		}
		if err != nil {
			return ErrorExecution, err
		}
		w.turns++
		calls := answer.Content.Calls()
		switch {
		case w.budget() != nil:
			w.add(answer.Content, refused(calls, errBudget.Error()))
			return ErrorMaxBudget, nil
		case answer.StopReason == provider.MaxTokens:
			again := continued < continuations
			continued++
			w.cut(answer, again)
			if !again {
				w.notice("the answer was cut off at its limit of tokens, and is not continued a fourth time")
				return Success, nil
			}
		case !slices.Contains(ends, answer.StopReason):
			w.add(answer.Content, refused(calls, "the model stopped: "+answer.StopReason))
			return ErrorExecution, errors.New("the model server ended the answer with " + answer.StopReason)
		case len(calls) == 0:
			w.add(answer.Content, nil)
			return Success, nil
		default:
			continued = 0
			w.add(answer.Content, w.make(ctx, calls))
			w.save(ctx)
		}
	}
}

// continuations are how often an answer that was cut off is continued.
const continuations = 3

// ends are how a whole answer ends.
var ends = []string{provider.EndTurn, provider.StopSequence, provider.ToolUse}

// begin asks the hooks, and takes the prompt into the conversation.
func (w *work) begin(ctx context.Context) error {
	if err := w.load(ctx); err != nil {
		return err
	}
	w.endSkills(ctx)
	if err := w.loadPrompt(ctx); err != nil {
		return err
	}
	w.tell(UserMessage{Text: w.prompt})
	text := w.prompt
	if !w.options.SubAgent {
		said, err := w.hooks(ctx, "userPromptSubmit", map[string]any{"prompt": w.prompt})
		if err != nil {
			return err
		}
		if said.Block {
			return errors.New("a hook refuses the prompt: " + said.Reason)
		}
		text = strings.Join(append([]string{w.prompt}, said.Messages...), "\n\n")
	}
	w.history.add(provider.UserText(text))
	w.context.grew(len(text))
	w.save(ctx)
	return nil
}

// add takes an answer and the results of its calls into the conversation.
func (w *work) add(answer provider.Blocks, results provider.Blocks) {
	w.history.add(provider.Message{Role: "assistant", Content: answer})
	room := maxResults
	for i, r := range results {
		if room -= size(r); room < 0 {
			results[i] = provider.Result(r.ToolUseID, "Left out: these results are too long together.", true)
		}
		w.context.grew(len(results[i].Content.Text()))
	}
	if len(results) > 0 {
		w.history.add(provider.Message{Role: "user", Content: results})
	}
}

// maxResults is how many bytes of results are kept of one answer: the daemon takes 8 MB at once.
const maxResults = 4 << 20

// cut takes an answer that was cut off. A call in it may lack its end.
func (w *work) cut(answer provider.Answer, again bool) {
	kept := slices.DeleteFunc(slices.Clone(answer.Content), func(b provider.Block) bool {
		return b.Type == "tool_use" || b.Type == "thinking" && b.Signature == ""
	})
	if kept.Text() == "" {
		kept = append(kept, provider.Block{Type: "text", Text: "[cut off]"})
	}
	w.add(kept, nil)
	if again {
		w.history.add(provider.UserText("Please continue from where you left off."))
	}
}

// finish leaves everything so that it can go on, and tells the hooks.
func (w *work) finish(ctx context.Context, subtype string) (errs []string) {
	w.endSkills(ctx)
	w.save(ctx)
	if err := w.saved(ctx); err != nil {
		errs = append(errs, "the conversation was not saved: "+err.Error())
	}
	if w.options.SubAgent {
		return errs
	}
	last := ""
	if len(w.said) > 0 {
		last = w.said[len(w.said)-1]
	}
	in := map[string]any{"lastAssistantMessage": last, "isInterrupt": subtype == Cancelled}
	for _, event := range []string{"stop", "sessionEnd"} {
		if _, err := w.hooks(ctx, event, in); err != nil {
			errs = append(errs, "the hooks of "+event+" were not told: "+err.Error())
		}
	}
	return errs
}

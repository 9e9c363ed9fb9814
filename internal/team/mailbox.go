package team

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Type is the subject of a message.
type Type string

// The types.
const (
	Text                 Type = "text"
	ShutdownRequest      Type = "shutdownRequest"
	ShutdownResponse     Type = "shutdownResponse"
	PlanApprovalResponse Type = "planApprovalResponse"
)

// Types are all of them.
var Types = []Type{Text, ShutdownRequest, ShutdownResponse, PlanApprovalResponse}

// Message is a text from one agent to another.
type Message struct {
	From      string    `json:"from"`
	To        string    `json:"to"`
	Content   string    `json:"content"`
	Timestamp time.Time `json:"timestamp"`
	Type      Type      `json:"type"`
}

// What one mailbox, and a message, may hold.
const (
	maxMessages     = 10_000
	maxMailboxBytes = 8 << 20
	maxMessage      = 64 << 10
)

// everyone is the recipient of a message to all members.
const everyone = "*"

// Outgoing is a message that somebody sends.
type Outgoing struct {
	To      string `json:"to"`
	Message string `json:"message"`
	Type    string `json:"type,omitempty"`
}

func (o *Outgoing) check() error {
	switch {
	case o.Type == "":
		o.Type = string(Text)
	case !slices.Contains(Types, Type(o.Type)):
		return bad(fmt.Sprintf("unknown type %.40q", o.Type),
			"types are text, shutdownRequest, shutdownResponse and planApprovalResponse")
	}
	switch {
	case o.To == "":
		return bad("to is empty", "name a member of your team, or * for all")
	case o.Message == "":
		return bad("message is empty", "")
	case len(o.Message) > maxMessage:
		return bad(fmt.Sprintf("message has %d bytes, %d at most", len(o.Message), maxMessage),
			"write long text to a file, and send its path")
	case !utf8.ValidString(o.Message) || strings.Contains(o.Message, "\x00"):
		return bad("message is not UTF-8, or has a zero byte", "")
	}
	return nil
}

// Send puts a message of the agent of p into the mailbox of an agent of one of its active teams, or into the
// mailboxes of all these agents except its own. It returns the recipients.
func (s *Store) Send(ctx context.Context, p Place, o Outgoing, by provenance.Authors) (to []string, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	err = s.write(ctx, func(v view) error {
		teams, err := s.of(v, p.Space, p.Agent)
		if err != nil {
			return err
		}
		if to, err = recipients(p.Agent, o.To, teams); err != nil {
			return err
		}
		m := Message{From: p.Agent, Content: o.Message, Timestamp: time.UnixMilli(v.now).UTC(), Type: Type(o.Type)}
		if o.To != everyone {
			return v.put(p.Space, o.To, m, by)
		}
		to, err = v.broadcast(p.Space, to, m, by)
		return err
	})
	return to, err
}

// recipients returns the agents that a message is for.
func recipients(from, to string, teams []Team) ([]string, error) {
	if len(teams) == 0 {
		return nil, &tool.Error{
			Code: "not_in_team",
			Msg:  fmt.Sprintf("Agent '%s' is not in an active team, so it can send no messages", from),
			Hint: "make a team with TeamCreate, or let its leader add this agent",
		}
	}
	var others []string
	for _, t := range teams {
		for _, name := range t.names() {
			if name != from && !slices.Contains(others, name) {
				others = append(others, name)
			}
		}
	}
	if to == everyone {
		return others, nil
	}
	if to != from && slices.Contains(others, to) {
		return []string{to}, nil
	}
	return nil, &tool.Error{
		Code: "recipient_not_found",
		Msg:  fmt.Sprintf("Agent '%.100s' is not in a team with '%s'", to, from),
		Hint: "available members: " + listed(others),
	}
}

// open makes a mailbox unless it exists.
func (v view) open(space, agent string) error {
	return v.Run(`INSERT INTO team_mailboxes (space, agent) VALUES ($1, $2) ON CONFLICT (space, agent) DO NOTHING`,
		space, agent)
}

// put puts a message into a mailbox. Every member of a team has one.
func (v view) put(space, to string, m Message, by provenance.Authors) error {
	var messages, bytes int64
	err := v.Row(`INSERT INTO team_mail (space, agent, number, messages, bytes, authors, sender, type, sent, content)
		SELECT $1, $2, coalesce(last.number, 0) + 1, coalesce(last.messages, 0) + 1, coalesce(last.bytes, 0) + $3,
			$4, $5, $6, $7, $8
		FROM (SELECT 1 AS one) AS this LEFT JOIN (
			SELECT number, messages, bytes FROM team_mail WHERE space = $1 AND agent = $2 ORDER BY number DESC LIMIT 1
		) AS last ON this.one = 1
		RETURNING messages, bytes`,
		space, to, len(m.From)+len(m.Content), int64(by), m.From, string(m.Type), m.Timestamp.UnixMilli(), m.Content,
	).Scan(&messages, &bytes)
	if err == nil && (messages > maxMessages || bytes > maxMailboxBytes) {
		err = &tool.Error{
			Code: "mailbox_full", Msg: fmt.Sprintf("the mailbox of '%s' is full: the message was not sent", to),
			Hint: "send it again when that agent has read its messages",
		}
	}
	return err
}

// broadcast puts a message into the mailboxes of those of these agents that have one, and returns their names. If
// one mailbox is full, nobody gets the message.
func (v view) broadcast(space string, to []string, m Message, by provenance.Authors) (got []string, err error) {
	for _, name := range to {
		var n int
		err := v.Row(`SELECT count(*) FROM team_mailboxes WHERE space = $1 AND agent = $2`, space, name).Scan(&n)
		if err == nil && n > 0 {
			got = append(got, name)
			err = v.put(space, name, m, by)
		}
		if err != nil {
			return nil, err
		}
	}
	return got, nil
}

// Look returns the messages in the mailbox of the agent of p, and their authors.
func (s *Store) Look(ctx context.Context, p Place) (all []Message, by provenance.Authors, err error) {
	err = s.read(ctx, func(v view) error {
		all, by, err = v.messages(`SELECT `+mailColumns+` FROM team_mail WHERE space = $1 AND agent = $2`, p)
		return err
	})
	return all, by, err
}

// Take returns the messages in the mailbox of the agent of p, and empties it.
func (s *Store) Take(ctx context.Context, p Place) (all []Message, by provenance.Authors, err error) {
	err = s.write(ctx, func(v view) error {
		all, by, err = v.messages(`DELETE FROM team_mail WHERE space = $1 AND agent = $2 RETURNING `+mailColumns, p)
		return err
	})
	return all, by, err
}

const mailColumns = `number, authors, sender, type, sent, content`

// messages returns those of the mailbox of p that a query finds, in the order of their numbers.
func (v view) messages(query string, p Place) (all []Message, by provenance.Authors, err error) {
	type numbered struct {
		number int64
		Message
	}
	var found []numbered
	err = v.EachKept(func(rows *sql.Rows) error {
		n := numbered{Message: Message{To: p.Agent}}
		var authors, sent int64
		if err := rows.Scan(&n.number, &authors, &n.From, &n.Type, &sent, &n.Content); err != nil {
			return err
		}
		by |= provenance.Authors(authors)
		n.Timestamp = time.UnixMilli(sent).UTC()
		found = append(found, n)
		return nil
	}, query, p.Space, p.Agent)
	slices.SortFunc(found, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	all = make([]Message, len(found))
	for i, n := range found {
		all[i] = n.Message
	}
	return all, by, err
}

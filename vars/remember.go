package vars

import (
	"context"
	"database/sql"
	"strings"

	"github.com/sandboxd/sandboxd/tool"
)

// Remember keeps the arguments and the result of a call as variables and names
// them in c.Result, in one transaction. Pending ones cannot be listed or read
// until Publish. A tool with NoCache leaves no variables, but what it returned
// still counts as shown to the model.
func (s *System) Remember(ctx context.Context, c *tool.Call, pending bool) error {
	if c.Spec.NoCache && pending {
		return nil
	}
	records := remembered(c)
	for _, r := range records {
		if err := checkName(r.name); err != nil {
			return err
		}
	}
	err := s.write(ctx, c.Request.Session, func(_ *sql.Tx, h *head) error {
		if pending {
			return s.storePending(h, c, records)
		}
		return s.release(h, c, records)
	})
	if err != nil {
		return err
	}
	if !pending {
		named(c, records)
	}
	return nil
}

// Publish makes the pending variables of a call readable: a person released them.
func (s *System) Publish(ctx context.Context, c *tool.Call) error {
	records := remembered(c)
	err := s.write(ctx, c.Request.Session, func(_ *sql.Tx, h *head) error {
		for i, r := range records { // the stored text is the one that the person saw
			err := s.row(`DELETE FROM var_pending WHERE session = $1 AND node = $2 AND name = $3 RETURNING value`,
				h.session, c.NodeID, r.name).Scan(&records[i].value)
			if err != nil {
				return err
			}
		}
		return s.release(h, c, records)
	})
	if err != nil {
		return err
	}
	named(c, records)
	return nil
}

// Discard deletes the pending variables of a call: a person rejected the result.
func (s *System) Discard(ctx context.Context, c *tool.Call) error {
	c.Result.VarResult, c.Result.VarArgs = "", ""
	return s.db.Write(ctx, func(*sql.Tx) error {
		return s.exec(`DELETE FROM var_pending WHERE session = $1 AND node = $2`, c.Request.Session, c.NodeID)
	})
}

// remembered is what a call leaves: its arguments, then its result.
func remembered(c *tool.Call) []record {
	if c.Spec.NoCache {
		return nil
	}
	base := c.Request.Tool + "_" + c.NodeID
	args := argsAuthors(c)
	return []record{
		{name: base + "_args", typ: TypeArgs, desc: "Arguments of " + c.Request.Tool, value: string(c.In.Args), authored: args},
		{name: base + "_result", typ: TypeResult, desc: "Result of " + c.Request.Tool, value: strings.ToValidUTF8(c.Result.FormattedText, "\uFFFD"), authored: resultAuthors(c)},
	}
}

func argsAuthors(c *tool.Call) authors {
	a := byModel
	for _, origins := range c.Origins.Args {
		a |= of(origins...)
	}
	return a
}

// resultAuthors is the tool, or who the tool says wrote it, and the outside
// authors of its arguments: echo gives back what it was given.
func resultAuthors(c *tool.Call) authors {
	a := argsAuthors(c) &^ byModel
	switch {
	case c.Output.Origin != "":
		return a | of(c.Output.Origin)
	case c.Spec.Origin != "":
		return a | of(c.Spec.Origin)
	}
	return a | byTool
}

func named(c *tool.Call, records []record) {
	if len(records) == 2 {
		c.Result.VarArgs, c.Result.VarResult = records[0].name, records[1].name
	}
}

func (s *System) storePending(h *head, c *tool.Call, records []record) error {
	for _, r := range records {
		err := s.exec(`INSERT INTO var_pending (session, node, name, type, authored, descr, value)
			VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (session, node, name) DO UPDATE SET authored = $5, value = $7`,
			h.session, c.NodeID, r.name, r.typ, r.authored, r.desc, []byte(r.value))
		if err != nil {
			return err
		}
	}
	return nil
}

// release stores what the model is shown, and that it is shown.
func (s *System) release(h *head, c *tool.Call, records []record) error {
	shown := resultAuthors(c)
	if shown&untrusted != 0 {
		if err := s.addUntrusted(h, shown&untrusted, c.Result.FormattedText); err != nil {
			return err
		}
	}
	for _, r := range records {
		r.origins = r.authored | h.released
		if _, err := s.store(h, r, nil); err != nil {
			return err
		}
	}
	h.released |= shown
	return nil
}

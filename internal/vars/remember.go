package vars

import (
	"context"
	"database/sql"
	"net/netip"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Remember keeps the arguments and the result of a call as variables and names
// them in c.Result, in one transaction. Pending ones cannot be listed or read
// until Publish. A tool with NoCache leaves no variables, but what it returned
// still counts as shown to the model.
func (s *System) Remember(ctx context.Context, c *tool.Call, pending bool) error {
	records := s.remembered(c)
	if pending && len(records) == 0 {
		return nil
	}
	for _, r := range records {
		if err := checkName(r.name); err != nil {
			return err
		}
	}
	err := s.write(ctx, c.Request.Session, func(tx *sql.Tx, h *head) error {
		if pending {
			return s.storePending(h, c, records)
		}
		return s.release(tx, h, c, records)
	})
	if err == nil {
		nameVars(c, records)
	}
	return err
}

// Publish makes the pending variables of a call readable, because the model is about to see the result: a person
// released it, or no hook withheld it. A failed call has no variables, but the model sees its message.
func (s *System) Publish(ctx context.Context, c *tool.Call) error {
	records := s.remembered(c)
	return s.write(ctx, c.Request.Session, func(tx *sql.Tx, h *head) error {
		for i, r := range records { // the stored text is the one that the person saw
			err := s.row(`DELETE FROM var_pending WHERE session = $1 AND node = $2 AND name = $3 RETURNING value`,
				h.session, c.NodeID, r.name).Scan(&records[i].value)
			if err != nil {
				return err
			}
		}
		return s.release(tx, h, c, records)
	})
}

// Discard deletes the variables of a call whose result is withheld, pending or not.
func (s *System) Discard(ctx context.Context, c *tool.Call) error {
	c.Result.VarResult, c.Result.VarArgs = "", ""
	return s.write(ctx, c.Request.Session, func(_ *sql.Tx, h *head) error {
		for _, r := range s.remembered(c) {
			n, err := s.execCount(`DELETE FROM vars WHERE session = $1 AND name = $2 AND keep = 0`, h.session, r.name)
			if err != nil {
				return err
			}
			h.total -= n
		}
		return s.exec(`DELETE FROM var_pending WHERE session = $1 AND node = $2`, h.session, c.NodeID)
	})
}

// remembered returns the variables that a call leaves: its arguments, then its result.
func (s *System) remembered(c *tool.Call) []record {
	if c.Spec.NoCache || c.Result.Status == tool.StatusError {
		return nil
	}
	base := c.Request.Tool + "_" + c.NodeID
	args := argsAuthors(c)
	return []record{
		{
			name: base + "_args", typ: TypeArgs, desc: "Arguments of " + c.Request.Tool,
			value: string(c.In.Args), authored: args,
		},
		{
			name: base + "_result", typ: TypeResult,
			desc:  shortDesc(tool.CacheDescription(c.Request.Tool, c.In.Args, s.o.Redact)),
			value: strings.ToValidUTF8(c.Result.FormattedText, "\uFFFD"), authored: resultAuthors(c),
		},
	}
}

// shortDesc bounds a description that was made from arguments.
func shortDesc(s string) string {
	if len(s) <= maxDesc {
		return s
	}
	return strings.ToValidUTF8(s[:maxDesc-3], "") + "…"
}

func argsAuthors(c *tool.Call) provenance.Authors {
	a := provenance.ByModel
	for _, origins := range c.Origins.Args {
		a |= provenance.Of(origins...)
	}
	return a
}

// resultAuthors returns the authors of a result: the tool, or the authors that the tool names, and the outside authors
// of the arguments, because a program such as echo repeats them.
func resultAuthors(c *tool.Call) provenance.Authors {
	a := argsAuthors(c) &^ provenance.ByModel
	if heardOutside(c) {
		a |= provenance.ByWeb // curl prints what the page says
	}
	switch {
	case c.Output.Origin != "":
		return a | provenance.Of(c.Output.Origin)
	case c.Spec.Origin != "":
		return a | provenance.Of(c.Spec.Origin)
	}
	return a | provenance.ByTool
}

// heardOutside reports whether another machine may have written what the call printed.
func heardOutside(c *tool.Call) bool { return len(heardFrom(c)) > 0 }

// heardFrom returns the hosts that may have written what the call printed. If the call ran in a sandbox, or connections
// were recorded, these hosts sent bytes; otherwise they are the hosts that the call names.
func heardFrom(c *tool.Call) []string {
	if c.Report.Profile != "" || len(c.Network.Connections) > 0 {
		return received(c)
	}
	return named(c.Facts.Uses)
}

func received(c *tool.Call) []string {
	hosts := c.Received()
	if c.Network.Omitted > 0 {
		hosts = append(hosts, provenance.OtherHosts)
	}
	return hosts
}

// named returns the other machines that a call names.
func named(u guard.Uses) []string {
	hosts := slices.Clone(u.Hosts)
	if u.Script != nil {
		for i := range u.Script.Commands {
			hosts = append(hosts, u.Script.Commands[i].Hosts...)
		}
	}
	return slices.DeleteFunc(hosts, func(host string) bool { return !remote(host) })
}

// remote reports whether a host is another machine.
func remote(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return !a.Unmap().IsLoopback()
	}
	return host != "localhost" && !strings.HasSuffix(host, ".localhost")
}

func nameVars(c *tool.Call, records []record) {
	if len(records) == 2 {
		c.Result.VarArgs, c.Result.VarResult = records[0].name, records[1].name
	}
}

func (s *System) storePending(h *head, c *tool.Call, records []record) error {
	bytes := 0
	for _, r := range records {
		bytes += len(r.value)
	}
	if err := s.o.Room(bytes); err != nil {
		return err
	}
	for _, r := range records {
		err := s.exec(`INSERT INTO var_pending (session, node, name, type, authored, descr, value, daemon)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (session, node, name) DO UPDATE SET authored = $5, value = $7`,
			h.session, c.NodeID, r.name, r.typ, r.authored, r.desc, []byte(r.value), s.db.Daemon())
		if err != nil {
			return err
		}
	}
	return nil
}

// release stores the variables that the model is about to see, and notes their authors in the head of the session. A
// result that repeats text from outside, such as a file into which a page was saved, is from outside too.
func (s *System) release(tx *sql.Tx, h *head, c *tool.Call, records []record) error {
	text := c.Result.FormattedText
	if c.Result.Status == tool.StatusError {
		text = c.Result.FinalText
	}
	copied, err := s.copied(tx, *h, text)
	if err != nil {
		return err
	}
	shown := resultAuthors(c) | copied
	if shown&provenance.Untrusted != 0 {
		if err := s.addUntrusted(h, shown&provenance.Untrusted, text); err != nil {
			return err
		}
	}
	printed := append(heardFrom(c), c.Origins.Hosts...)
	for _, r := range records {
		known := c.Origins.Hosts
		if r.typ == TypeResult {
			r.authored |= copied
			known = printed
		}
		r.origins = r.authored | h.heard()
		r.hosts = h.hostsOf(r.origins, known)
		if _, err := s.store(h, r, nil); err != nil {
			return err
		}
	}
	s.shown(h, shown, printed)
	return nil
}

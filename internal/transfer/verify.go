package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// verify reads both sides again in full and compares them.
func (p *Plan) verify(ctx context.Context) (all []Copied, err error) {
	for _, t := range p.tables {
		want, err := p.sum(ctx, t, p.From, true)
		if err != nil {
			return nil, fmt.Errorf("verify %s: %w", t.name, err)
		}
		got, err := p.sum(ctx, t, p.To, false)
		if err != nil {
			return nil, fmt.Errorf("verify %s: %w", t.name, err)
		}
		if got != want {
			return nil, p.differs(want, got)
		}
		all = append(all, got)
	}
	want, err := p.sumTranscripts(ctx, p.From)
	if err != nil {
		return nil, fmt.Errorf("verify transcripts: %w", err)
	}
	got, err := p.sumTranscripts(ctx, p.To)
	if err != nil {
		return nil, fmt.Errorf("verify transcripts: %w", err)
	}
	if got != want {
		return nil, p.differs(want, got)
	}
	return append(all, got), nil
}

func (p *Plan) differs(want, got Copied) error {
	return &tool.Error{
		Code: "store_differs",
		Msg: fmt.Sprintf("%s is not the same: %s has %d rows (SHA-256 %.12s…), %s %d (%.12s…)", want.Table,
			p.From.Name, want.Rows, want.SHA256, p.To.Name, got.Rows, got.SHA256),
		Hint: "one side was changed since the copy began; empty the destination and copy again. " +
			"No daemon opens it as it is",
	}
}

// sum counts and hashes the rows of a table in the form that they have at the destination.
func (p *Plan) sum(ctx context.Context, t table, s Side, moved bool) (Copied, error) {
	of, err := t.count(ctx, s.DB)
	if err != nil {
		return Copied{}, err
	}
	h, c := sha256.New(), Copied{Table: t.name}
	err = t.each(ctx, s.DB, nil, func(row []any) error {
		if moved {
			if err := p.moved(t, row); err != nil {
				return err
			}
		}
		for _, cell := range row {
			add(h, value(cell))
		}
		if c.Rows++; c.Rows%pageRows == 0 {
			p.tell("verify", t.name, c.Rows, of, false)
		}
		return ctx.Err()
	})
	if err == nil && !moved {
		p.tell("verify", t.name, c.Rows, of, true)
	}
	c.SHA256 = hex.EncodeToString(h.Sum(nil))
	return c, err
}

// add adds a value to a hash, with its type and its length, so that no two different rows add the same bytes.
func add(h hash.Hash, v any) {
	kind, text := byte('n'), []byte(nil)
	switch v := v.(type) {
	case int64:
		kind, text = 'i', binary.BigEndian.AppendUint64(nil, uint64(v))
	case string:
		kind, text = 't', []byte(v)
	case []byte:
		kind, text = 'b', v
	}
	h.Write([]byte{kind})
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
	h.Write(text)
}

func (p *Plan) sumTranscripts(ctx context.Context, s Side) (Copied, error) {
	c, h := Copied{Table: "transcripts"}, sha256.New()
	ids, err := sessionsWith(ctx, s)
	if err != nil {
		return c, err
	}
	slices.Sort(ids)
	for _, id := range ids {
		one, err := hashOf(s, id)
		if err != nil {
			return c, err
		}
		add(h, id)
		add(h, one)
		c.Rows++
		p.tell("verify", c.Table, c.Rows, int64(len(ids)), false)
	}
	c.SHA256 = hex.EncodeToString(h.Sum(nil))
	return c, ctx.Err()
}

// hashOf returns the hash of a transcript.
func hashOf(s Side, id string) ([]byte, error) {
	f, err := s.Transcripts.Read(id)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f.Whole())
	return h.Sum(nil), err
}

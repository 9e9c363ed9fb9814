package audit

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
)

// known is what is known of the log outside of its file. Whoever changes the log must change
// all of it alike, and what is beside the key is out of their reach.
type known struct {
	public ed25519.PublicKey
	mirror Mirrored
	kept   Kept  // beside the key
	anchor *Kept // nil without one
	wrong  string
}

// witness is one line that somebody outside of the log knows.
type witness struct {
	seq  uint64
	hash string
	who  string
}

func (k known) witnesses() []witness {
	all := []witness{
		{k.kept.Seq, k.kept.Hash, "the head beside the key"},
		{k.mirror.Head.Seq, k.mirror.Head.Hash, "the database"},
	}
	if k.anchor != nil {
		all = append(all, witness{k.anchor.Seq, k.anchor.Hash, "the anchor"})
	}
	return all
}

// fixed returns the line up to which all agree. The log may be read from a checkpoint before it.
func (k known) fixed() uint64 {
	least := k.kept.Seq
	for _, w := range k.witnesses() {
		least = min(least, w.seq)
	}
	return least
}

// look reads what is known, in the opposite order of its writing: what is written meanwhile
// then only makes the others newer.
func look(ctx context.Context, o Options, m Mirror, key ed25519.PrivateKey) (known, error) {
	k := known{public: public(key)}
	anchor, err := o.Anchor.read(k.public)
	if err != nil {
		return k, err
	}
	var wrong error
	k.anchor, wrong = anchor.kept, anchor.wrong
	if k.kept, err = readKept(o.HeadPath(), k.public); err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNoHead) {
			return k, err
		}
		wrong = errors.Join(wrong, fmt.Errorf("the head beside the key is missing: %w", err))
	} else if wrong == nil {
		wrong = anchor.against(k.kept, o.Anchor.File)
	}
	if wrong != nil {
		k.wrong = wrong.Error()
	}
	if k.mirror, err = m.Load(ctx); err != nil {
		return k, fmt.Errorf("read the mirror: %w", err)
	}
	if reason := k.forged(); reason != "" {
		k.mirror = Mirrored{} // which says nothing about the log
		if k.wrong == "" {
			k.wrong = reason
		}
	}
	return k, nil
}

// forged notices rows of the database that were written without the key.
func (k known) forged() string {
	if h := k.mirror.Head; h.Seq > 0 && !signed(k.public, forHead, h.Seq, h.Hash, h.Signature) {
		return "the newest line in the database is not signed with this key: the database or the key was replaced"
	}
	for _, c := range k.mirror.Checkpoints {
		if !signed(k.public, forCheckpoint, c.Seq, c.Hash, c.Signature) {
			return fmt.Sprintf(
				"checkpoint %d in the database is not signed with this key: the database or the key was "+
					"replaced", c.Seq,
			)
		}
	}
	return ""
}

// disagree says what is wrong with the others, whatever the log holds; "" is nothing.
func (k known) disagree() string {
	if k.wrong != "" {
		return k.wrong
	}
	upTo := 0
	for _, c := range k.mirror.Checkpoints {
		if c.Seq <= k.kept.Seq {
			upTo++
		}
	}
	newest := k.mirror.Head.Seq
	switch {
	case newest == 0 && k.kept.Seq > 0:
		return fmt.Sprintf("the database knows no line, the head beside the key %d: the database was removed or "+
			"emptied", k.kept.Seq)
	case newest < k.kept.Seq:
		return fmt.Sprintf("the database is an older one: it knows %d lines, the head beside the key %d", newest,
			k.kept.Seq)
	case k.kept.Closed && newest > k.kept.Seq:
		return fmt.Sprintf("the head beside the key is an older one: it says that the log was closed at line %d, "+
			"the database knows %d", k.kept.Seq, newest)
	case upTo != k.kept.Checkpoints:
		return fmt.Sprintf("the database has %d checkpoints up to line %d, the head beside the key knows %d", upTo,
			k.kept.Seq, k.kept.Checkpoints)
	case k.anchor != nil && k.anchor.Seq > k.kept.Seq:
		return fmt.Sprintf("the head beside the key is an older one: it knows %d lines, the anchor %d", k.kept.Seq,
			k.anchor.Seq)
	}
	return ""
}

// CheckDatabase refuses to have an empty database in the place of one that knows the record.
// Call it before the database is opened, which would make one.
func (o Options) CheckDatabase(path string) error {
	key, err := readKey(o.KeyFile)
	if err != nil {
		return nil // Open says what is wrong, or makes the first key
	}
	kept, err := readKept(o.HeadPath(), public(key))
	if err != nil || kept.Seq == 0 {
		return nil
	}
	empty, err := isEmpty(path)
	if err == nil && empty {
		err = fmt.Errorf("%w: the database %s is missing or empty, and the head beside the key knows %d lines",
			ErrTampered, path, kept.Seq)
	}
	return err
}

package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Kept is the newest line as it is kept outside of the state directory: beside the key, and
// where an [Anchor] says. It is written when log and database hold that line durably, so both
// hold at least as much whenever the machine stops.
type Kept struct {
	Seq         uint64    `json:"seq"` // 0: no line yet
	Hash        string    `json:"hash"`
	Checkpoints int       `json:"checkpoints"`        // in the database, up to this line
	Closed      bool      `json:"closed"`             // the log was closed, and ends in this line
	Anchor      string    `json:"anchor,omitempty"`   // digest of the name of the anchor's file
	Anchored    uint64    `json:"anchored,omitempty"` // the newest line that is in that file for sure
	Count       uint64    `json:"count"`              // of the times that it was written; the highest is the newest
	Time        time.Time `json:"time"`
	Signature   string    `json:"signature,omitempty"` // over the JSON without it
}

// HeadPath returns the file beside the key that holds the newest line.
func (o Options) HeadPath() string { return filepath.Join(filepath.Dir(o.KeyFile), headName) }

const (
	headName = "audit.head"
	// slotSize is the room of one copy in the file. There are two, written in turns, so that
	// a crash in the middle of a write leaves the one before.
	slotSize = 1024
	// maxKept is how much is read of a file with heads, from its end.
	maxKept = 64 << 10
)

func (k Kept) sign(key ed25519.PrivateKey) (line []byte, err error) {
	k.Signature = ""
	body, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	k.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, keptMessage(body)))
	line, err = json.Marshal(k)
	return append(line, '\n'), err
}

func (k Kept) signedBy(key ed25519.PublicKey) bool {
	sig, err := base64.StdEncoding.DecodeString(k.Signature)
	if err != nil || len(sig) != ed25519.SignatureSize {
		return false
	}
	k.Signature = ""
	body, err := json.Marshal(k)
	return err == nil && ed25519.Verify(key, keptMessage(body), sig)
}

func keptMessage(body []byte) []byte { return append([]byte("sandboxd audit kept\n"), body...) }

// errNoHead is a file that holds no head of this key.
var errNoHead = errors.New("it holds no head that is signed with this key")

// readKept reads the newest head of a file that holds any number of them, one in a line.
func readKept(path string, key ed25519.PublicKey) (Kept, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return Kept{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Kept{}, err
	}
	text := make([]byte, min(info.Size(), maxKept))
	if _, err := f.ReadAt(text, info.Size()-int64(len(text))); err != nil && !errors.Is(err, io.EOF) {
		return Kept{}, err
	}
	var newest Kept
	for line := range bytes.Lines(text) {
		var k Kept
		line = bytes.Trim(line, "\x00") // of a slot that was never written
		if json.Unmarshal(line, &k) == nil && k.Count > newest.Count && k.signedBy(key) {
			newest = k
		}
	}
	if newest.Count == 0 {
		return Kept{}, fmt.Errorf("%s: %w", path, errNoHead)
	}
	return newest, nil
}

// keeper writes the head beside the key.
type keeper struct {
	key  ed25519.PrivateKey
	file headFile
	last Kept // as it is in the file
}

// headFile is what a keeper does with its open file.
type headFile interface {
	io.WriterAt
	io.Closer
	Sync() error
}

// openKeeper opens the file that holds last; without one it makes the file.
func openKeeper(o Options, key ed25519.PrivateKey, last Kept) (*keeper, error) {
	f, err := openRegular(o.HeadPath(), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	return &keeper{key: key, file: f, last: last}, nil
}

// keep replaces the head. When it returns nil, a loss of power leaves the new one.
func (k *keeper) keep(h Kept) error {
	h.Count, h.Time = k.last.Count+1, time.Now().UTC()
	line, err := h.sign(k.key)
	if err != nil {
		return err
	}
	if len(line) >= slotSize {
		return fmt.Errorf("cannot happen: a head of %d bytes", len(line))
	}
	slot := append(bytes.Repeat([]byte(" "), slotSize-len(line)), line...)
	slot[0] = '\n' // so that half of the slot before is not read as one line with this
	if _, err := k.file.WriteAt(slot, int64(h.Count%2)*slotSize); err != nil {
		return err
	}
	if err := k.file.Sync(); err != nil {
		return err
	}
	k.last = h
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// placeDigest stands for the name of a file in a head.
func placeDigest(path string) string {
	if path == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(filepath.Clean(path)))
	return hex.EncodeToString(sum[:])
}

// isEmpty reports whether a file is absent or has no bytes.
func isEmpty(path string) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && info.Mode().IsRegular() && info.Size() == 0, err
}

package setup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Undo removes what the manifest lists, the newest first. What it cannot or must not remove it
// leaves and says; then the manifest stays, too.
func (p *Plan) Undo(ctx context.Context, show Show) error {
	m, err := readManifest(p.host.at(p.manifest))
	if err != nil {
		return err
	}
	if len(m.Made) == 0 {
		fmt.Fprintf(show.Out, "nothing to undo: there is no %s\n", p.manifest)
		return nil
	}
	all := slices.Clone(m.Made)
	slices.Reverse(all)
	for _, e := range all {
		fmt.Fprintf(show.Out, "remove %-9s %s\n", e.Kind, e.Name)
	}
	if show.DryRun {
		return nil
	}
	if show.Confirm != nil {
		if ok, err := show.Confirm(); err != nil {
			return err
		} else if !ok {
			return ErrDeclined
		}
	}
	own := made{Kind: Dir, Name: filepath.Dir(p.manifest)}
	var left []made
	for _, e := range all {
		if e.Kind == own.Kind && e.Name == own.Name {
			continue // it holds the manifest until the end
		}
		why, err := p.remove(ctx, e, left)
		if err != nil {
			return fmt.Errorf("remove %s %s: %w; run it again to go on", e.Kind, e.Name, err)
		}
		if why != "" {
			fmt.Fprintf(show.Out, "left   %-9s %s: %s\n", e.Kind, e.Name, why)
			left = append(left, e)
			continue
		}
		m.forget(e.Kind, e.Name)
		if err := m.write(); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(show.Out, "undone, except %d things; %s lists them for another --undo\n", len(left), p.manifest)
		return nil
	}
	if err := os.Remove(m.path); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(e made) bool { return e.Kind == own.Kind && e.Name == own.Name }) {
		if why := p.host.removeDir(own.Name); why != "" {
			fmt.Fprintf(show.Out, "left   %-9s %s: %s\n", Dir, own.Name, why)
		}
	}
	fmt.Fprintln(show.Out, "undone")
	return nil
}

// remove removes one thing, or says why it is left. kept is what was left before.
func (p *Plan) remove(ctx context.Context, e made, kept []made) (left string, err error) {
	h := p.host
	switch e.Kind {
	case Started:
		if !h.Systemd {
			return "", nil
		}
		return "", h.Run(ctx, append(p.systemctl("disable", "--now"), strings.Fields(e.Name)...)...)
	case File:
		text, err := os.ReadFile(h.at(e.Name))
		if errors.Is(err, os.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if sumOf(text) != e.Sum { // also of a step that was begun and not finished: another one may have made it
			return "it was changed since", nil
		}
		if err := os.Remove(h.at(e.Name)); err != nil {
			return "", err
		}
		if strings.Contains(e.Name, "/systemd/") && h.Systemd {
			return "", h.Run(ctx, p.systemctl("daemon-reload")...)
		}
		return "", nil
	case Dir:
		return h.removeDir(e.Name), nil
	case User:
		if _, ok := h.user(e.Name); !ok {
			return "", nil
		}
		if slices.ContainsFunc(kept, func(k made) bool { return k.Kind == Dir }) {
			return "its files are left, and another user could get its uid", nil
		}
		return "", h.Run(ctx, "userdel", e.Name)
	case Allowed:
		return "", h.Projects.Remove(ctx, e.Name)
	case Group:
		if _, ok := h.group(e.Name); !ok {
			return "", nil
		}
		return "", h.Run(ctx, "groupdel", e.Name)
	case Member:
		who, of, _ := strings.Cut(e.Name, " ")
		if g, ok := h.group(of); !ok || !slices.Contains(g.members, who) {
			return "", nil
		}
		return "", h.Run(ctx, "gpasswd", "--delete", who, of)
	}
	return "this version does not know what it is", nil
}

// removeDir removes an empty directory, or says why not.
func (h Host) removeDir(dir string) (left string) {
	switch err := unix.Rmdir(h.at(dir)); {
	case err == nil || errors.Is(err, unix.ENOENT):
		return ""
	case errors.Is(err, unix.ENOTEMPTY):
		return "it holds files; what the daemon recorded is yours to keep or to remove"
	default:
		return err.Error()
	}
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

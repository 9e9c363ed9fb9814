package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/mcp/servers"
	"github.com/sandboxd/sandboxd/internal/tool"
)

const (
	maxPath = 4096 // bytes; Linux has no longer path
	maxUses = 4096 // paths and hosts of one call
)

// uses returns the paths and hosts that arguments name: absolute paths, paths below ~, file: and other URLs. A
// server may read what the arguments name. Where its cage lets it write, it may write them too.
func (v *server) uses(in tool.In) (guard.Uses, error) {
	var u guard.Uses
	if v.x.g.config.Load().PathArguments == servers.PathsPass {
		return u, nil
	}
	var args any
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return u, err
	}
	err := each(args, func(text string) error {
		path, host, err := names(text)
		switch {
		case err != nil:
			return &tool.Error{
				Code: "invalid_arguments", Stage: "judge", Msg: fmt.Sprintf("%.80q cannot be judged: %v", text, err),
				Hint: "write the whole address, such as https://example.com/page, or the path",
			}
		case len(u.Paths)+len(u.Hosts) > maxUses:
			return &tool.Error{
				Code: "invalid_arguments", Stage: "judge",
				Msg:  fmt.Sprintf("the arguments name more than %d paths and hosts", maxUses),
				Hint: "do less in one call",
			}
		case host != "":
			if !slices.Contains(u.Hosts, host) {
				u.Hosts = append(u.Hosts, host)
			}
		case path != "":
			return v.usePath(&u, in, text, path)
		}
		return nil
	})
	return u, err
}

func (v *server) usePath(u *guard.Uses, in tool.In, raw, path string) error {
	physical, err := in.Rules.Resolve(path, in.Dir, in.Home)
	if err != nil {
		var pe *guard.PathError
		if errors.As(err, &pe) {
			return &tool.Error{Code: pe.Code, Msg: pe.Msg, Hint: pe.Hint}
		}
		return err
	}
	u.Paths = append(u.Paths, guard.PathUse{Raw: raw, Path: physical, Op: guard.Read})
	writable := func(root string) bool { return guard.Within(physical, root) }
	if slices.ContainsFunc(v.conf.Sandbox.AllowedWritePaths, writable) {
		u.Paths = append(u.Paths, guard.PathUse{Raw: raw, Path: physical, Op: guard.Write})
	}
	return nil
}

// networks are schemes whose URLs name a machine even by a word without a dot.
var networks = []string{
	"http", "https", "ws", "wss", "ftp", "ftps", "sftp", "ssh", "git", "git+ssh", "git+http", "git+https", "svn",
	"rsync",
	"tcp", "udp", "redis", "rediss", "postgres", "postgresql", "mysql", "mongodb", "mongodb+srv", "amqp", "amqps",
	"mqtt", "mqtts", "ldap", "ldaps", "smb", "nfs", "telnet", "grpc", "grpcs", "imap", "imaps", "smtp", "smtps",
}

var scheme = lazyregexp.New(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// special are the schemes of which readers of URLs take any slashes, or none, for two (WHATWG URL 4.4).
var special = []string{"http", "https", "ws", "wss", "ftp"}

// skipped are characters that readers of URLs leave out (WHATWG URL 4.4).
var skipped = strings.NewReplacer("\n", "", "\r", "", "\t", "")

// names returns the path or the host that a text names. Text in words names neither.
func names(text string) (path, host string, err error) {
	if strings.ContainsRune(text, 0) {
		return "", "", nil
	}
	text = strings.TrimLeftFunc(text, func(r rune) bool { return r <= ' ' }) // a server may do that
	if filepath.IsAbs(text) || text == "~" || strings.HasPrefix(text, "~/") {
		if strings.Contains(text, "\n") {
			return "", "", nil // the source of a program may begin with a slash
		}
		if len(text) > maxPath { // a server may shorten it, as the kernel does not
			if text = filepath.Clean(text); len(text) > maxPath {
				return "", "", nil
			}
		}
		return text, "", nil
	}
	line, _, more := strings.Cut(text, "\n")
	whole := skipped.Replace(text)
	if s := schemeOf(whole); more && (slices.Contains(networks, s) || s == "file") {
		if path, host, err = ofURL(whole); err != nil || schemeOf(line) != s {
			return path, host, err
		}
		if p, h, err := ofURL(skipped.Replace(line)); err != nil || p != path || h != host {
			return "", "", errors.New("a line break is in its host or path")
		}
		return path, host, nil
	}
	return ofURL(skipped.Replace(line))
}

func schemeOf(text string) string {
	return strings.ToLower(strings.TrimSuffix(scheme().FindString(text), ":"))
}

// ofURL returns the path or the host that a text names as a URL.
func ofURL(text string) (path, host string, err error) {
	s := schemeOf(text)
	if s == "" {
		return "", "", nil
	}
	first, _, _ := strings.Cut(text, " ")
	rest := first[len(s)+1:]
	if slices.Contains(special, s) {
		rest = strings.ReplaceAll(rest, `\`, "/")
		if bare := strings.TrimLeft(rest, "/"); bare != rest || strings.Contains(bare, ".") {
			rest = "//" + bare
		}
	}
	switch {
	case s == "file":
		u, err := url.Parse(text)
		if err != nil || u.Opaque != "" || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) {
			return "", "", errors.New("it is no file: URL with an absolute path")
		}
		return u.Path, "", nil
	case strings.HasPrefix(rest, "//"):
		u, err := url.Parse(s + ":" + rest)
		if err != nil || u.Hostname() == "" {
			if slices.Contains(networks, s) {
				return "", "", errors.New("it is no URL")
			}
			return "", "", nil // db:///y names no host
		}
		if !slices.Contains(networks, s) && !strings.ContainsAny(u.Hostname(), ".:") && u.Hostname() != "localhost" {
			return "", "", nil // notes://today is a name in a scheme of the server's own
		}
		h, err := guard.CanonicalHost(u.Hostname())
		if err != nil {
			return "", "", err
		}
		return "", h, nil
	}
	return "", "", nil
}

// each calls f with each text in a value.
func each(value any, f func(string) error) error {
	switch v := value.(type) {
	case string:
		return f(v)
	case []any:
		for _, item := range v {
			if err := each(item, f); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, item := range v {
			if err := errors.Join(f(key), each(item, f)); err != nil {
				return err
			}
		}
	}
	return nil
}

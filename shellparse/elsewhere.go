package shellparse

import (
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/effect"
	"github.com/sandboxd/sandboxd/shellparse/program"
)

// elsewhere says what a command does on another machine or in a container. It reads the words as a shell there does.
func (a *act) elsewhere() {
	text, ok := a.remoteText()
	if !ok {
		return
	}
	if a.w.nested >= maxNested {
		a.w.fail(&Error{
			Code: "too_deep", Msg: "shells in shells are nested deeper than 8",
			Hint: "run the inner command itself", At: text.At,
		})
	}
	in := a.In
	in.Files = slices.Clone(in.Files)
	for i := range in.Files {
		in.Files[i] = a.absolute(in.Files[i])
	}
	s, err := Parse(text.Text, Options{in: in})
	if err != nil {
		return // here it is data; the shell there may refuse it too
	}
	for i := range s.Commands {
		c := &s.Commands[i]
		if c.Effects == nil {
			continue
		}
		for _, f := range c.Effects.Feeds {
			if f.Destroys { // the file lies there
				c.Effects.Acts = append(c.Effects.Acts, effect.Act{
					Program: c.Name, Verb: "statements of", Target: f.Path, Does: effect.Destroys,
				})
			}
			if slices.ContainsFunc(in.Files, func(w program.Word) bool { return w.Known && w.Text == f.Path }) {
				e := a.given()
				e.Feeds = append(e.Feeds, f) // a file of this machine; others lie there
			}
		}
		does := effect.Changes
		for _, d := range c.Effects.Deletes {
			if (d.Recursive || d.Many) && d.Moved == "" {
				does = effect.Destroys
			}
		}
		if len(c.Effects.Discards) > 0 || slices.ContainsFunc(c.Effects.Acts,
			func(x effect.Act) bool { return x.Does == effect.Destroys }) {
			does = effect.Destroys
		}
		if does == effect.Changes && len(c.Effects.Acts) == 0 && len(c.Effects.Runs) == 0 {
			continue
		}
		e := a.given()
		e.Acts = append(e.Acts, effect.Act{
			Program: a.Name,
			Verb:    strings.TrimSpace(c.Name + " " + strings.Join(words(c), " ")), Does: does,
		})
		return
	}
}

// engines are programs whose subcommand exec names a container, and then what runs in it.
var engines = []string{"docker", "podman", "nerdctl", "docker-compose", "podman-compose", "nerdctl-compose", "crictl"}

// inContainer returns what runs in a container, from the words after exec.
func inContainer(words []program.Word) (program.Word, bool) {
	latest := false // podman: the container has no name
	for len(words) > 0 && words[0].Known && strings.HasPrefix(words[0].Text, "-") {
		switch words[0].Text {
		case "-e", "--env", "-u", "--user", "-w", "--workdir", "--env-file", "--detach-keys", "--index":
			words = words[min(1, len(words)-1):]
		case "-l", "--latest":
			latest = true
		}
		words = words[1:]
	}
	if latest && len(words) > 0 {
		return program.Quoted(words), true
	}
	if len(words) < 2 {
		return program.Word{}, false
	}
	return program.Quoted(words[1:]), true
}

// behind returns what follows the options of a program that is in no table. The letters in valued take a value.
func (a *act) behind(valued string) []program.Word {
	for i := 1; i < len(a.Argv); i++ {
		switch text := a.Argv[i].Text; {
		case !strings.HasPrefix(text, "-"):
			return a.Argv[i:]
		case len(text) == 2 && strings.Contains(valued, text[1:]):
			i++
		}
	}
	return nil
}

// remoteText returns the command that a command runs elsewhere, if it runs one.
func (a *act) remoteText() (program.Word, bool) {
	words := a.Operands
	switch a.Name {
	case "pdsh", "clush", "parallel-ssh", "pssh": // hosts are values of options
		words = a.behind("wgxlhHtofn")
		return program.Joined(words), len(words) > 0
	case "autossh":
		words = a.behind("BbcDEeFIiJLlMmOopQRSWw")
	case "mosh":
		if words = a.behind("p"); len(words) > 1 && words[1].Is("--") {
			words = slices.Delete(slices.Clone(words), 1, 2)
		}
	case "adb":
		words = a.behind("HLPst")
	}
	switch a.Name {
	case "ssh", "autossh", "mosh", "adb":
		if len(words) < 2 {
			return program.Word{}, false
		}
		return program.Joined(words[1:]), true
	case "docker", "podman", "nerdctl", "kubectl", "oc", "k", "docker-compose", "podman-compose", "nerdctl-compose",
		"lxc", "incus", "nsenter", "crictl",
		"multipass", "limactl", "fly", "flyctl", "heroku", "vagrant", "gcloud", "minikube":
	default:
		return program.Word{}, false
	}
	runs := false
	for i, f := range a.Argv[1:] {
		rest := a.Argv[i+2:]
		if f.Is("exec") && slices.Contains(engines, a.Name) {
			return inContainer(rest)
		}
		switch {
		case f.Is("exec") || f.Is("run") || f.Is("ssh") || f.Is("shell") || f.Is("debug"):
			runs = true
		case runs && f.Is("--") && len(rest) == 0:
			return program.Word{}, false
		case runs && f.Is("--"):
			return program.Quoted(rest), true
		case runs && len(rest) > 0 && (f.Is("--command") || f.Is("-c") && a.Name == "vagrant" ||
			f.Is("-C") && strings.HasPrefix(a.Name, "fly")):
			return rest[0], true
		case runs && strings.HasPrefix(f.Text, "--command="):
			return f.Sub(strings.TrimPrefix(f.Text, "--command=")), true
		}
	}
	if len(words) > 1 && runs {
		return program.Quoted(words[1:]), true
	}
	return program.Word{}, false
}

package review

import "github.com/sandboxd/sandboxd/internal/lazyregexp"

// risky finds the words of a command line that a person should read twice. It is
// an aid for the eye and decides nothing.
var risky = lazyregexp.New(`(?:^|[\s;&|({"'` + "`" + `/])(` +
	`sudo|doas|su|rm|rmdir|shred|dd|mkfs[.\w]*|truncate|chmod|chown|chattr|mount|umount|` +
	`kill|killall|pkill|shutdown|reboot|systemctl|crontab|at|nohup|setsid|` +
	`curl|wget|nc|ncat|socat|ssh|scp|sftp|rsync|ftp|telnet|` +
	`eval|exec|source|sh|bash|zsh|dash|xargs|python3?|perl|ruby|node|` +
	`publish|push|docker|podman|kubectl|` +
	`-(?:[a-zA-Z]*f[a-zA-Z]*|delete|exec|execdir)|` +
	`--(?:force[-\w]*|hard|no-verify|delete|mirror|prune|recursive|privileged|yes|insecure|no-preserve-root|exec)` +
	`)(?:$|[\s;&|)}"'` + "`" + `=])`)

// Word is a piece of a command line.
type Word struct {
	Text  string
	Risky bool // read it twice
}

// Words are the pieces of a command line, in order: together they are the line.
func Words(line string) []Word {
	var all []Word
	from := 0 // of what is in none of all
	for at := 0; at < len(line); {
		m := risky().FindStringSubmatchIndex(line[at:])
		if m == nil {
			break
		}
		start, end := at+m[2], at+m[3]
		if start > from {
			all = append(all, Word{Text: line[from:start]})
		}
		all = append(all, Word{line[start:end], true})
		at, from = end, end // the character after the word may begin the next match
	}
	return append(all, Word{Text: line[from:]})
}

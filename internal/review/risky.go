package review

import "github.com/sandboxd/sandboxd/internal/lazyregexp"

// risky matches the words of a command line that a person should read twice. It helps the reader and decides
// nothing.
var risky = lazyregexp.New(`(?:^|[\s;&|({"'` + "`" + `/])(` +
	`sudo|doas|su|rm|rmdir|shred|dd|mkfs[.\w]*|truncate|chmod|chown|chattr|mount|umount|` +
	`kill|killall|pkill|shutdown|reboot|systemctl|crontab|at|nohup|setsid|` +
	`curl|wget|nc|ncat|socat|ssh|scp|sftp|rsync|ftp|telnet|` +
	`eval|exec|source|sh|bash|zsh|dash|xargs|python3?|perl|ruby|node|` +
	`publish|push|docker|podman|kubectl|` +
	`-(?:[a-zA-Z]*f[a-zA-Z]*|delete|exec|execdir)|` +
	`--(?:force[-\w]*|hard|no-verify|delete|mirror|prune|recursive|privileged|yes|insecure|no-preserve-root|exec)` +
	`)(?:$|[\s;&|)}"'` + "`" + `=])`)

// Word is a part of a command line.
type Word struct {
	Text  string
	Risky bool // to be read twice
}

// Words splits a command line into parts. Joined, they are the line.
func Words(line string) []Word {
	var all []Word
	from := 0 // start of the text that is in no part yet
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

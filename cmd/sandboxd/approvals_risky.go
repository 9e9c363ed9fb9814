package main

import (
	"regexp"
	"slices"
)

// risky finds the words of a command line that a person should read twice. It is
// an aid for the eye and decides nothing.
var risky = regexp.MustCompile(`(?:^|[\s;&|({"'` + "`" + `/])(` +
	`sudo|doas|su|rm|rmdir|shred|dd|mkfs[.\w]*|truncate|chmod|chown|chattr|mount|umount|` +
	`kill|killall|pkill|shutdown|reboot|systemctl|crontab|at|nohup|setsid|` +
	`curl|wget|nc|ncat|socat|ssh|scp|sftp|rsync|ftp|telnet|` +
	`eval|exec|source|sh|bash|zsh|dash|xargs|python3?|perl|ruby|node|` +
	`publish|push|docker|podman|kubectl|` +
	`-(?:[a-zA-Z]*f[a-zA-Z]*|delete|exec|execdir)|` +
	`--(?:force[-\w]*|hard|no-verify|delete|mirror|prune|recursive|privileged|yes|insecure|no-preserve-root|exec)` +
	`)(?:$|[\s;&|)}"'` + "`" + `=])`)

// span is a half-open range of bytes.
type span struct{ start, end int }

// riskySpans returns the marks in text, in order.
func riskySpans(text string) []span {
	var all []span
	for at := 0; at < len(text); {
		m := risky.FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		all = append(all, span{at + m[2], at + m[3]})
		at += m[3] // the character after the word may begin the next match
	}
	return slices.Clip(all)
}

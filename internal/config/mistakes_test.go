package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestAllMistakesAreNamedAtOnce: of every kind, in the order of their lines, each once and
// without what only follows from another.
func TestAllMistakesAreNamedAtOnce(t *testing.T) {
	h := newHome(t)
	h.env["SANDBOXD_LOG_LEVEL"], h.env["SANDBOXD_APPROVALS_APPROVER"] = "loud", "perhaps"
	_, err := h.load(`log:
  levle: info
sessions: {mode: yolo, perAccount: many}
approvals:
  timeout: 300
  approver: 7
  webhook: {url: 'ftp://x'}
tools:
  custom:
    - {nam: Lint}
    - {name: L, description: d, argv: [l], timeoutMs: x}
  groups:
    shell: {enabeld: true, rulPrompt: x}
    nope: true
  deferred: [Nope, Nada]
workspace:
  roots: [relative, /nowhere, /]
policy:
  dirs: [policies]
  keepDecisions: 5
  rules:
    deny: [Bash(a | b), Bash(c | d)]
sandbox:
  limits: {wallSeconds: many, processes: -1, outputAction: drop}
  allowedReadPaths: [src]
  network:
    allowedDomain: [x]
  require: [gravity]
hooks:
  preToolUs: [{command: "true"}]
  stop: [{command: ./x, comand: y}, {command: ./z}]
accounts:
  1000: ''
  ann: ann
vars: &v {capacity: 0}
store: *v
workspaces: {}
log: {}
`)
	var got []string
	for _, one := range err.(Mistakes) {
		text := one.Error()
		if e, ok := errors.AsType[*Error](one); ok {
			text = strings.TrimPrefix(text, e.File)
		}
		got = append(got, text)
	}
	want := []string{
		`SANDBOXD_APPROVALS_APPROVER sets approvals.approver to "perhaps": want true or false`,
		`: log.level: unknown value "loud": want debug, info, warn, error`,
		`:2: log: unknown key "levle"; did you mean "level"?`,
		`:3: sessions.perAccount: want a whole number, not "many"`,
		`:3: sessions.mode: unknown value "yolo": want plan, dontAsk, default, acceptEdits, auto, bypassPermissions`,
		`:5: approvals.timeout: want a time with its unit, as in 90s or 5m, not "300"`,
		`:6: approvals.approver: want true or false, not "7"`,
		`:7: approvals.webhook: want both url and secretFile, or neither`,
		`:10: tools.custom[0]: unknown key "nam"; did you mean "name"?`,
		`:11: tools.custom[1]: want a whole number for timeoutMs, not string`,
		`:13: tools.groups.shell: unknown key "enabeld"; did you mean "enabled"?`,
		`:13: tools.groups.shell: unknown key "rulPrompt"; did you mean "rulePrompt"?`,
		`:14: tools.groups.nope: no such group: the groups are Agent, custom, files, people, session, shell, vars, web; ` +
			`a group of your own needs rulePrompt or declareSkillRules`,
		`:15: tools.deferred[0]: there is no tool "Nope"; names are exact`,
		`:15: tools.deferred[1]: there is no tool "Nada"; names are exact`,
		`:17: workspace.roots[0]: "relative" is relative; write the absolute path`,
		`:17: workspace.roots[1]: lstat /nowhere: no such file or directory`,
		`:17: workspace.roots[2]: the workspace would be the whole system; name a directory`,
		`:19: policy.dirs[0]: policy directory "policies" is relative; write the absolute path`,
		`:20: policy.keepDecisions: want a time with its unit, as in 90s or 5m, not "5"`,
		`:22: policy.rules.deny[0]: rule "Bash(a | b)" in deny: it can never match: "|" joins commands, ` +
			`and each command of a line is judged by itself`,
		`:22: policy.rules.deny[1]: rule "Bash(c | d)" in deny: it can never match: "|" joins commands, ` +
			`and each command of a line is judged by itself`,
		`:24: sandbox.limits.wallSeconds: "many" is not a value for it: want a whole number of seconds`,
		`:24: sandbox.limits.processes: -1 is negative`,
		`:24: sandbox.limits.outputAction: "drop" is not truncate or kill`,
		`:25: sandbox.allowedReadPaths: "src" is relative; write the absolute path`,
		`:27: sandbox: unknown key "network.allowedDomain": known are allowLocalBinding, allowedDomains, caFile, ` +
			`deniedDomains, hosts, intercept, search, secrets, unlisted, upstreamProxy`,
		`:28: sandbox.require: "gravity" is no layer: want userns, netns, landlock, seccomp, cgroup2`,
		`:30: hooks.preToolUs: unknown hook event "preToolUs"`,
		`:31: hooks.stop[0]: unknown key "comand"; did you mean "command"?`,
		`:31: hooks.stop[1]: command "./z": "./z" is relative, and hooks run in /`,
		`:33: accounts[1000]: "" is no name for an account: want letters, digits or any of -_. only`,
		`:34: accounts: "ann" is neither a uid nor others`,
		`:35: vars: anchors and aliases are not supported; write the value out`,
		`:36: store: anchors and aliases are not supported; write the value out`,
		`:37: unknown key "workspaces"; did you mean "workspace"?`,
		`:38: log: the key is given twice, first in line 1`,
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("not named: %s", w)
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("named too: %s", g)
		}
	}
	if t.Failed() {
		t.Log("all:\n" + strings.Join(got, "\n"))
	} else if !slices.Equal(got, want) {
		t.Errorf("in another order:\n%s", strings.Join(got, "\n"))
	}
}

func TestSuggestionsAreNear(t *testing.T) {
	known := []string{"timeout", "approver", "maxPerSession", "url"}
	for key, want := range map[string]string{
		"timeuot": "timeout", "Timeout": "timeout", "maxpersession": "maxPerSession", "uri": "url", "approvers": "approver",
		"port": "", "x": "", "session": "",
	} {
		msg := unknownKey(key, known)
		if got := strings.Contains(msg, "did you mean"); got != (want != "") || !strings.Contains(msg, want) {
			t.Errorf("%s: got %s, want %q", key, msg, want)
		}
	}
}

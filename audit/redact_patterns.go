package audit

import (
	"regexp"
	"strings"
	"sync"
)

// pattern is one form of secret. The hints are a cheap test before the
// expression: one of them is in every match, in lower case where fold is set.
type pattern struct {
	name  string
	hints []string
	fold  bool
	re    *regexp.Regexp
	group int // which group is the secret; 0 is all of the match
}

// patterns are tried in order; wider ones come later, so that the mark names the
// narrowest. They are compiled on first use: many commands never redact.
var patterns = sync.OnceValue(func() []pattern {
	return []pattern{
		{name: "private-key", hints: []string{"PRIVATE KEY-----"}, re: regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`)},
		{name: "age-key", hints: []string{"AGE-SECRET-KEY-"}, re: regexp.MustCompile(`AGE-SECRET-KEY-1[0-9A-Z]{20,}`)},
		{name: "aws-access-key", hints: []string{"AKIA", "ASIA", "ABIA", "ACCA"}, re: regexp.MustCompile(`\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`)},
		{name: "github-token", hints: []string{"gh", "github_pat_"}, re: regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,})`)},
		{name: "gitlab-token", hints: []string{"gl"}, re: regexp.MustCompile(`\bgl(?:pat|dt|rt|ptt|cbt|agent|soat|ft|imt)-[A-Za-z0-9_\-]{16,}`)},
		{name: "anthropic-key", hints: []string{"sk-ant-"}, re: regexp.MustCompile(`\bsk-ant-[A-Za-z0-9_\-]{10,}`)},
		{name: "openai-key", hints: []string{"sk-"}, re: regexp.MustCompile(`\bsk-[A-Za-z0-9_\-]{20,}`)},
		{name: "stripe-key", hints: []string{"k_live_", "k_test_"}, re: regexp.MustCompile(`\b[rs]k_(?:live|test)_[A-Za-z0-9]{10,}`)},
		{name: "google-key", hints: []string{"AIza"}, re: regexp.MustCompile(`\bAIza[A-Za-z0-9_\-]{30,}`)},
		{name: "google-token", hints: []string{"ya29."}, re: regexp.MustCompile(`\bya29\.[A-Za-z0-9_\-.]{20,}`)},
		{name: "slack-token", hints: []string{"xox", "xapp-"}, re: regexp.MustCompile(`\b(?:xox[abeoprs]-|xapp-)[A-Za-z0-9\-]{10,}`)},
		{name: "slack-webhook", hints: []string{"hooks.slack.com/"}, re: regexp.MustCompile(`hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_\-]{10,}`)},
		{name: "npm-token", hints: []string{"npm_"}, re: regexp.MustCompile(`\bnpm_[A-Za-z0-9]{30,}`)},
		{name: "pypi-token", hints: []string{"pypi-"}, re: regexp.MustCompile(`\bpypi-[A-Za-z0-9_\-]{30,}`)},
		{name: "huggingface-token", hints: []string{"hf_"}, re: regexp.MustCompile(`\bhf_[A-Za-z0-9]{30,}`)},
		{name: "sendgrid-key", hints: []string{"SG."}, re: regexp.MustCompile(`\bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}`)},
		{name: "digitalocean-token", hints: []string{"do"}, re: regexp.MustCompile(`\bdo[opr]_v1_[a-f0-9]{40,}`)},
		{name: "telegram-token", hints: []string{":AA"}, re: regexp.MustCompile(`\b[0-9]{8,10}:AA[A-Za-z0-9_\-]{30,}`)},
		{name: "vault-token", hints: []string{"hvs.", "hvb."}, re: regexp.MustCompile(`\bhv[sb]\.[A-Za-z0-9_\-]{20,}`)},
		{name: "azure-key", hints: []string{"accountkey="}, fold: true, re: regexp.MustCompile(`(?i)AccountKey=([A-Za-z0-9+/=]{20,})`), group: 1},
		{name: "jwt", hints: []string{"eyJ"}, re: regexp.MustCompile(`\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]*)?`)},
		{name: "authorization", hints: []string{"bearer"}, fold: true, re: regexp.MustCompile(`(?i)\bbearer\s+([^\s"',;]{6,})`), group: 1},
		{name: "authorization", hints: []string{"authorization"}, fold: true, re: regexp.MustCompile(`(?i)authorization["']?\s*[:=]\s*["']?(?:[a-z\-]+\s+([^\s"',;]{6,}))`), group: 1},
		{name: "authorization", hints: []string{"authorization"}, fold: true, re: regexp.MustCompile(`(?i)authorization["']?\s*[:=]\s*["']?([^\s"',;]{16,})`), group: 1},
		{name: "authorization", hints: []string{"x-api-key", "x-auth-token", "private-token"}, fold: true, re: regexp.MustCompile(`(?i)(?:x-api-key|x-auth-token|private-token)["']?\s*[:=]\s*["']?([^\s"',;]{6,})`), group: 1},
		{name: "url-password", hints: []string{"://"}, re: regexp.MustCompile(`\b[A-Za-z][A-Za-z0-9+.\-]*://[^\s/:@"']*:([^\s/@"']+)@`), group: 1},
		{name: "assignment", hints: []string{"pass", "secret", "token", "api_key", "api-key", "apikey", "access_key", "access-key", "accesskey", "private_key", "credential"}, fold: true, re: regexp.MustCompile(
			`(?i)[A-Za-z0-9_\-.]*(?:password|passwd|passphrase|secret|token|api[_\-]?key|access[_\-]?key|private[_\-]?key|credential)[A-Za-z0-9_\-]*["']?\s*(?:=|:\s|:["'])\s*["']?([^\s"',;&|<>(){}$][^\s"',;&|<>(){}]{3,})`), group: 1},
		{name: "option", hints: []string{"--pass", "--token", "--secret", "--api-key"}, fold: true, re: regexp.MustCompile(`(?i)--(?:password|passwd|passphrase|token|secret|api-key)\s+["']?([^\s"'\-$][^\s"']{3,})`), group: 1},
	}
})

func (p pattern) apply(s string) string {
	found := p.re.FindAllStringSubmatchIndex(s, -1)
	if found == nil {
		return s
	}
	var b strings.Builder
	end := 0
	for _, m := range found {
		from, to := m[2*p.group], m[2*p.group+1]
		b.WriteString(s[end:from])
		b.WriteString(mark(p.name))
		end = to
	}
	b.WriteString(s[end:])
	return b.String()
}

func (p pattern) hinted(s string) bool {
	if p.fold {
		s = strings.ToLower(s)
	}
	for _, h := range p.hints {
		if strings.Contains(s, h) {
			return true
		}
	}
	return false
}

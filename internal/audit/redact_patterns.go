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

// keyPattern is the only form that goes on for any number of lines.
const keyPattern = "private-key"

// patterns are tried in order, private keys first; wider ones come later, so that the mark names the
// narrowest. They are compiled on first use: many commands never redact.
var patterns = sync.OnceValue(func() []pattern {
	return []pattern{
		{
			name: keyPattern, hints: []string{"PRIVATE KEY-----"},
			re: regexp.MustCompile(
				`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`,
			),
		},
		{name: "age-key", hints: []string{"AGE-SECRET-KEY-"}, re: regexp.MustCompile(`AGE-SECRET-KEY-1[0-9A-Z]{20,}`)},
		{
			name: "aws-access-key", hints: []string{"AKIA", "ASIA", "ABIA", "ACCA"},
			re: token(`(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`), group: 1,
		},
		{
			name: "github-token", hints: []string{"gh", "github_pat_"},
			re: token(`(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,})`), group: 1,
		},
		{
			name: "gitlab-token", hints: []string{"gl"},
			re: token(`gl(?:pat|dt|rt|ptt|cbt|agent|soat|ft|imt)-[A-Za-z0-9_\-]{16,}`), group: 1,
		},
		{name: "anthropic-key", hints: []string{"sk-ant-"}, re: token(`sk-ant-[A-Za-z0-9_\-]{10,}`), group: 1},
		{name: "openai-key", hints: []string{"sk-"}, re: token(`sk-[A-Za-z0-9_\-]{20,}`), group: 1},
		{
			name: "stripe-key", hints: []string{"k_live_", "k_test_"},
			re:    token(`[rs]k_(?:live|test)_[A-Za-z0-9]{10,}`),
			group: 1,
		},
		{name: "google-key", hints: []string{"AIza"}, re: token(`AIza[A-Za-z0-9_\-]{30,}`), group: 1},
		{name: "google-token", hints: []string{"ya29."}, re: token(`ya29\.[A-Za-z0-9_\-.]{20,}`), group: 1},
		{
			name: "slack-token", hints: []string{"xox", "xapp-"},
			re:    token(`(?:xox[abeoprs]-|xapp-)[A-Za-z0-9\-]{10,}`),
			group: 1,
		},
		{
			name: "slack-webhook", hints: []string{"hooks.slack.com/"},
			re: regexp.MustCompile(`hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_\-]{10,}`),
		},
		{name: "npm-token", hints: []string{"npm_"}, re: token(`npm_[A-Za-z0-9]{30,}`), group: 1},
		{name: "pypi-token", hints: []string{"pypi-"}, re: token(`pypi-[A-Za-z0-9_\-]{30,}`), group: 1},
		{name: "huggingface-token", hints: []string{"hf_"}, re: token(`hf_[A-Za-z0-9]{30,}`), group: 1},
		{
			name: "sendgrid-key", hints: []string{"SG."}, re: token(`SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}`),
			group: 1,
		},
		{name: "digitalocean-token", hints: []string{"do"}, re: token(`do[opr]_v1_[a-f0-9]{40,}`), group: 1},
		{name: "telegram-token", hints: []string{":AA"}, re: token(`[0-9]{8,10}:AA[A-Za-z0-9_\-]{30,}`), group: 1},
		{name: "vault-token", hints: []string{"hvs.", "hvb."}, re: token(`hv[sb]\.[A-Za-z0-9_\-]{20,}`), group: 1},
		{
			name: "azure-key", hints: []string{"accountkey="}, fold: true,
			re: regexp.MustCompile(`(?i)AccountKey=([A-Za-z0-9+/=]{20,})`), group: 1,
		},
		{
			name: "jwt", hints: []string{"eyJ"},
			re: token(`eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]*)?`), group: 1,
		},
		{
			name: "authorization", hints: []string{"bearer"}, fold: true,
			re: regexp.MustCompile(`(?i)\bbearer\s+([^\s"',;]{6,})`), group: 1,
		},
		{
			name: "authorization", hints: []string{"authorization"}, fold: true,
			re: regexp.MustCompile(`(?i)authorization["']?\s*[:=]\s*["']?(?:[a-z\-]+\s+([^\s"',;]{6,}))`), group: 1,
		},
		{
			name: "authorization", hints: []string{"authorization"}, fold: true,
			re: regexp.MustCompile(`(?i)authorization["']?\s*[:=]\s*["']?([^\s"',;]{16,})`), group: 1,
		},
		{
			name: "authorization", hints: []string{"x-api-key", "x-auth-token", "private-token"}, fold: true,
			re: regexp.MustCompile(
				`(?i)(?:x-api-key|x-auth-token|private-token)["']?\s*[:=]\s*["']?([^\s"',;]{6,})`,
			),
			group: 1,
		},
		{
			name: "url-password", hints: []string{"://"},
			re: regexp.MustCompile(`\b[A-Za-z][A-Za-z0-9+.\-]*://[^\s/:@"']*:([^\s/@"']+)@`), group: 1,
		},
		{
			name: "assignment", fold: true,
			hints: []string{
				"pass", "secret", "token", "api_key", "api-key", "apikey", "access_key", "access-key", "accesskey",
				"private_key", "private-key", "privatekey", "credential",
			},
			re: regexp.MustCompile(`(?i)[A-Za-z0-9_\-.]*` +
				`(?:password|passwd|passphrase|secret|token|api[_\-]?key|access[_\-]?key|private[_\-]?key|credential)` +
				`[A-Za-z0-9_\-]*["']?\s*(?:=|:\s|:["'])\s*["']?([^\s"',;&|<>(){}$][^\s"',;&|<>(){}]{3,})`),
			group: 1,
		},
		{
			name: "option", hints: []string{"--pass", "--token", "--secret", "--api-key"}, fold: true,
			re: regexp.MustCompile(
				`(?i)--(?:password|passwd|passphrase|token|secret|api-key)\s+["']?([^\s"'\-$][^\s"']{3,})`,
			),
			group: 1,
		},
	}
})

// token returns a secret that stands by itself, or behind a _ as in a name that was made of it.
func token(expr string) *regexp.Regexp { return regexp.MustCompile(`(?:\b|_)(` + expr + `)`) }

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
		s = strings.ReplaceAll(strings.ToLower(s), "ſ", "s") // as expressions fold it
	}
	for _, h := range p.hints {
		if strings.Contains(s, h) {
			return true
		}
	}
	return false
}
